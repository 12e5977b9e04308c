#include "client/blocks.h"

#include <stdlib.h>
#include <time.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/log.h"
#include "client/refusal.h"
#include "client/registration.h"
#include "gpumem.h"

/* Twice the pool, so that fragmented addresses do not matter; less where the system allows less. */
static int open_arena(struct pool *pool)
{
        uint64_t n_bytes, start;
        int r;

        if (size_round_up(pool->row.n_capacity_bytes, ARENA_GRANULE, &n_bytes) ||
            n_bytes > UINT64_MAX / 4)
                return -EPROTO;
        n_bytes *= 2;
        while ((r = memory_reserve(&pool->memory, n_bytes, &start)) != 0) {
                n_bytes = n_bytes / 2 & ~(ARENA_GRANULE - 1);
                if (n_bytes < ARENA_GRANULE)
                        return r;
        }
        r = arena_new(start, n_bytes, &pool->arena);
        if (r) {
                memory_unreserve(&pool->memory, start, n_bytes);
                return r;
        }
        pool->arena_start = start;
        pool->n_arena_bytes = n_bytes;
        return 0;
}

static int take_address(struct pool *pool, struct leased *leased)
{
        int r = 0;

        pthread_mutex_lock(&pool->lock);
        if (!pool->arena)
                r = open_arena(pool);
        if (!r)
                r = arena_take(pool->arena, leased->n_bytes, leased, &leased->address);
        pthread_mutex_unlock(&pool->lock);
        return r;
}

static void give_address(struct pool *pool, const struct leased *leased)
{
        pthread_mutex_lock(&pool->lock);
        arena_give(pool->arena, leased->address);
        pthread_mutex_unlock(&pool->lock);
}

static void say_returned(struct pool *pool, const struct leased *leased)
{
        struct frame frame = FRAME_NULL;

        frame.return_lease.lease = leased->lease;
        frame.return_lease.flags = PROTO_RETURN_UNMAPPED;
        uplink_send(pool->uplink, leased->connection, &frame, MESSAGE_RETURN);
}

static void say_detached(struct pool *pool, const struct leased *leased)
{
        struct frame frame = FRAME_NULL;

        frame.detach.lease = leased->lease;
        frame.detach.flags = PROTO_RETURN_UNMAPPED;
        uplink_send(pool->uplink, leased->connection, &frame, MESSAGE_DETACH);
}

/* What was attached is accounted for by those who leased it. */
static uint64_t own_bytes(const struct leased *leased)
{
        return leased->is_attached ? 0 : leased->n_bytes;
}

/* When the daemon is gone that it was leased from, so is the lease. */
static void say_over(struct pool *pool, const struct leased *leased)
{
        if (!bind_unmapped(pool, leased->connection, own_bytes(leased)))
                return;
        if (leased->is_attached)
                say_detached(pool, leased);
        else
                say_returned(pool, leased);
}

/* A block is a little larger than asked for at most, or the daemon is not what it should be. */
static int check_answer(const struct message_leased *answer, uint64_t n_bytes)
{
        if (answer->n_bytes < n_bytes || answer->n_bytes - n_bytes > n_bytes / 8 ||
            answer->n_bytes % ARENA_GRANULE)
                return -EPROTO;
        return 0;
}

struct wanted {
        uint64_t n_bytes;
        uint32_t properties;
        uint32_t wait_ms;
};

static int ask_on(struct pool *pool, const struct connection *connection,
                  const struct wanted *wanted, struct leased *leased, int *ret_fd)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply = FRAME_NULL;
        int r;

        request.lease.n_bytes = wanted->n_bytes;
        request.lease.properties = wanted->properties;
        request.lease.wait_ms = wanted->wait_ms;
        r = bind_find(pool, connection->serial, &request.lease.pool);
        if (r == GPUMEM_E_NO_POOL && link_is_over(connection->link))
                return GPUMEM_E_DISCONNECTED;
        if (!r)
                r = link_call(connection->link, &request, MESSAGE_LEASE, MESSAGE_LEASED, &reply,
                              &fds);
        if (r && reply.kind == MESSAGE_ERROR)
                refusal_hear(r, reply.error.text);
        if (!r)
                r = check_answer(&reply.leased, wanted->n_bytes);
        if (!r)
                r = bind_lease(pool, connection->serial, reply.leased.n_bytes);
        if (r)
                return r;
        leased->lease = reply.leased.lease;
        leased->block = reply.leased.block;
        leased->n_bytes = reply.leased.n_bytes;
        leased->connection = connection->serial;
        *ret_fd = fdset_steal(&fds, 0);
        return 0;
}

static uint64_t now_ms(void)
{
        struct timespec time;

        (void)clock_gettime(CLOCK_MONOTONIC, &time);
        return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

static uint32_t ms_until(uint64_t deadline_ms)
{
        uint64_t at_ms = now_ms();

        return at_ms < deadline_ms ? (uint32_t)(deadline_ms - at_ms) : 0;
}

/* A daemon that is lost before it has answered is asked once more when it is back, as far as there
 * is time left. */
static int ask(struct pool *pool, const struct wanted *wanted, struct leased *leased, int *ret_fd)
{
        struct wanted now = *wanted;
        uint64_t deadline_ms = wanted->wait_ms ? now_ms() + wanted->wait_ms : 0;
        int r = GPUMEM_E_DISCONNECTED;

        for (unsigned i = 0; i < 2 && r == GPUMEM_E_DISCONNECTED; i++) {
                struct connection *connection;

                if (i && wanted->wait_ms)
                        now.wait_ms = ms_until(deadline_ms);
                r = uplink_acquire(pool->uplink, &connection);
                if (r)
                        return r;
                r = ask_on(pool, connection, &now, leased, ret_fd);
                uplink_release(pool->uplink, connection, r);
        }
        return r;
}

static int place(struct pool *pool, struct leased *leased, int take_fd)
{
        CLEANUP(closep)
        int fd = take_fd;
        int r;

        r = take_address(pool, leased);
        if (r)
                return r;
        leased->context = registration_context(pool);
        r = memory_map(&pool->memory, leased->address, leased->n_bytes, steal_fd(&fd),
                       &leased->mapping);
        if (r)
                give_address(pool, leased);
        else if (leased->mapping != MAPPING_REGISTERED)
                leased->context = 0;
        return r;
}

static int lease_block(struct pool *pool, uint64_t n_bytes, uint32_t properties, uint32_t wait_ms,
                       struct leased **ret_leased)
{
        struct wanted wanted = {n_bytes, properties, wait_ms};
        struct leased *leased = calloc(1, sizeof(*leased));
        int fd, r;

        if (!leased)
                return -ENOMEM;
        r = limit_take(pool, n_bytes);
        if (r) {
                free(leased);
                return r;
        }
        leased->n_bytes = n_bytes;
        r = ask(pool, &wanted, leased, &fd);
        if (!r) {
                limit_correct(pool, n_bytes, leased->n_bytes);
                r = place(pool, leased, fd);
                if (r)
                        say_over(pool, leased);
        }
        if (r) {
                limit_give(pool, leased->n_bytes);
                free(leased);
                return r;
        }
        *ret_leased = leased;
        return 0;
}

int leased_new(struct pool *pool, uint64_t n_bytes, uint32_t wait_ms, struct leased **ret_leased)
{
        return lease_block(pool, n_bytes, 0, wait_ms, ret_leased);
}

int leased_new_shareable(struct pool *pool, uint64_t n_bytes, uint32_t wait_ms,
                         struct leased **ret_leased)
{
        return lease_block(pool, n_bytes, PROTO_PROPERTY_SHAREABLE, wait_ms, ret_leased);
}

int leased_attach(struct pool *pool, uint64_t connection, const struct message_attached *answer,
                  int take_fd, struct leased **ret_leased)
{
        CLEANUP(closep)
        int fd = take_fd;
        struct leased *leased = calloc(1, sizeof(*leased));
        int r;

        if (!leased)
                return -ENOMEM;
        leased->lease = answer->lease;
        leased->block = answer->block;
        leased->n_bytes = answer->n_block_bytes;
        leased->connection = connection;
        leased->is_attached = true;
        r = bind_lease(pool, connection, own_bytes(leased));
        if (!r) {
                r = answer->n_block_bytes % ARENA_GRANULE ? -EPROTO
                                                          : place(pool, leased, steal_fd(&fd));
                if (r)
                        (void)bind_unmapped(pool, connection, own_bytes(leased));
        }
        if (r) {
                free(leased);
                return r;
        }
        *ret_leased = leased;
        return 0;
}

void leased_describe(const struct pool *pool, const struct leased *leased, struct gpumem_info *info)
{
        info->kind = pool->memory.kind;
        info->place = pool_place(pool);
        info->block_base = (void *)(uintptr_t)leased->address;
        info->n_block_bytes = leased->n_bytes;
        info->block = leased->block;
        info->is_registered = leased->mapping == MAPPING_REGISTERED;
        info->is_attached = leased->is_attached;
        info->is_held = leased->connection != pool->binding.connection;
}

void leased_free(struct pool *pool, struct leased *leased)
{
        int r = registration_undo(pool, leased);

        if (!r)
                r = memory_unmap(&pool->memory, leased->address, leased->n_bytes, leased->mapping);
        if (r) {
                log_debug("a block of %llu bytes could not be unmapped and stays leased: %d",
                          (unsigned long long)leased->n_bytes, r);
                return;
        }
        give_address(pool, leased);
        say_over(pool, leased);
        /* What another process leased is within that one's limit. */
        if (!leased->is_attached)
                limit_give(pool, leased->n_bytes);
        free(leased);
}
