/* Blocks that are leased anew while they are mapped still: a message, and no call of the driver. */
#include "base/err.h"
#include "base/fdset.h"
#include "client/blocks/binding.h"
#include "client/blocks/blocks.h"
#include "client/blocks/retained.h"
#include "client/blocks/client_limit.h"
#include "client/mapping/host_register.h"
#include "client/connection/reconnect.h"
#include "gpumem.h"
#include "proto/board.h"

static void send_return(struct pool *pool, const struct connection *connection, uint64_t lease)
{
        struct frame frame = FRAME_NULL;

        frame.return_lease.lease = lease;
        frame.return_lease.flags = PROTO_RETURN_UNMAPPED;
        reconnect_send(pool->reconnector, connection->serial, &frame, MESSAGE_RETURN);
}

static void send_unmapped(struct pool *pool, const struct connection *connection, uint64_t lease)
{
        struct frame frame = FRAME_NULL;

        frame.unmapped.lease = lease;
        reconnect_send(pool->reconnector, connection->serial, &frame, MESSAGE_UNMAPPED);
}

/* The mapping is the new lease's from now on. NULL: it has been taken away since. */
static struct leased *renew(struct pool *pool, const struct connection *connection,
                            const struct message_known *known, uint64_t *ret_old_lease)
{
        struct leased *leased = NULL;

        pthread_mutex_lock(&pool->lock);
        if (pool->binding.connection == connection->serial)
                leased = retained_take(pool, known->block, connection->serial);
        if (leased) {
                *ret_old_lease = leased->block.lease;
                leased->block.lease = known->lease;
                leased->block.word = board_words(connection->board, connection->n_rows) +
                                     known->slot;
                leased->is_revoked = false;
        }
        pthread_mutex_unlock(&pool->lock);
        return leased;
}

static int take_answer(struct pool *pool, const struct connection *connection, uint64_t n_bytes,
                       const struct frame *reply, struct leased **ret_leased)
{
        const struct message_known *known = &reply->known;
        struct leased *leased;
        uint64_t old_lease;

        /* It was unmapped while the daemon answered. */
        if (reply->kind == MESSAGE_LEASED) {
                send_return(pool, connection, reply->leased.lease);
                return GPUMEM_E_REFUSED;
        }
        if (known->n_bytes != n_bytes || known->slot >= connection->n_slots)
                return -EPROTO;
        leased = renew(pool, connection, known, &old_lease);
        if (!leased) {
                send_return(pool, connection, known->lease);
                return GPUMEM_E_REFUSED;
        }
        send_unmapped(pool, connection, old_lease);
        *ret_leased = leased;
        return 0;
}

static int ask(struct pool *pool, const struct connection *connection, uint64_t n_bytes,
               struct leased **ret_leased)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        int r;

        request.lease.n_bytes = n_bytes;
        request.lease.n_most_units = (uint32_t)(n_bytes / ARENA_GRANULE);
        request.lease.flags = PROTO_LEASE_KNOWN | PROTO_LEASE_ONLY_KNOWN;
        if (host_register_lasts(&pool->memory))
                request.lease.flags |= PROTO_LEASE_KEEPS;
        r = binding_find(pool, connection->serial, &request.lease.pool);
        if (!r)
                r = link_call(connection->link, &request, MESSAGE_LEASE, MESSAGE_LEASED, &reply,
                              &fds);
        return r ? r : take_answer(pool, connection, n_bytes, &reply, ret_leased);
}

int leased_obtain_known(struct pool *pool, uint64_t n_bytes, struct leased **ret_leased)
{
        struct connection *connection;
        int r = client_limit_take(pool, n_bytes);

        if (r)
                return r;
        r = reconnect_acquire(pool->reconnector, &connection);
        if (!r) {
                bool repeats;

                r = ask(pool, connection, n_bytes, ret_leased);
                repeats = reconnect_may_repeat(connection, r);
                reconnect_release(pool->reconnector, connection, r);
                /* The next daemon has none of them, but may have others. */
                if (repeats)
                        r = GPUMEM_E_REFUSED;
        }
        if (r)
                client_limit_give(pool, n_bytes);
        return r;
}
