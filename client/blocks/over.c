#include "client/blocks/over.h"

#include "client/blocks/binding.h"
#include "client/connection/reconnect.h"

static void say_unmapped(struct pool *pool, const struct leased *leased)
{
        struct frame frame = FRAME_NULL;

        frame.unmapped.lease = leased->block.lease;
        reconnect_send(pool->reconnector, leased->connection, &frame, MESSAGE_UNMAPPED);
}

static void say_returned(struct pool *pool, const struct leased *leased)
{
        struct frame frame = FRAME_NULL;

        frame.return_lease.lease = leased->block.lease;
        frame.return_lease.flags = PROTO_RETURN_UNMAPPED;
        reconnect_send(pool->reconnector, leased->connection, &frame, MESSAGE_RETURN);
}

static void say_detached(struct pool *pool, const struct leased *leased)
{
        struct frame frame = FRAME_NULL;

        frame.detach.lease = leased->block.lease;
        frame.detach.flags = PROTO_RETURN_UNMAPPED;
        reconnect_send(pool->reconnector, leased->connection, &frame, MESSAGE_DETACH);
}

uint64_t over_bytes(const struct leased *leased)
{
        return leased->is_attached ? 0 : leased_bytes(leased);
}

void over_say(struct pool *pool, const struct leased *leased)
{
        if (!binding_unmapped(pool, leased->connection, over_bytes(leased)))
                return;
        if (leased->is_attached)
                say_detached(pool, leased);
        else if (leased->is_revoked)
                say_unmapped(pool, leased);
        else
                say_returned(pool, leased);
}
