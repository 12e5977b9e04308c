#include "client/blocks.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/log.h"
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

/* When nobody is there to take it back, the daemon is gone and so is the lease. */
static void say_returned(struct pool *pool, uint64_t lease)
{
        struct frame frame = FRAME_NULL;

        frame.return_lease.lease = lease;
        frame.return_lease.flags = PROTO_RETURN_UNMAPPED;
        if (link_send(pool->link, &frame, MESSAGE_RETURN))
                log_debug("lease %llu: the daemon is gone", (unsigned long long)lease);
}

static void say_detached(struct pool *pool, uint64_t lease)
{
        struct frame frame = FRAME_NULL;

        frame.detach.lease = lease;
        frame.detach.flags = PROTO_RETURN_UNMAPPED;
        if (link_send(pool->link, &frame, MESSAGE_DETACH))
                log_debug("lease %llu: the daemon is gone", (unsigned long long)lease);
}

static void say_over(struct pool *pool, const struct leased *leased)
{
        if (leased->is_attached)
                say_detached(pool, leased->lease);
        else
                say_returned(pool, leased->lease);
}

/* A block is a little larger than asked for at most, or the daemon is not what it should be. */
static int check_answer(const struct message_leased *answer, uint64_t n_bytes)
{
        if (answer->n_bytes < n_bytes || answer->n_bytes - n_bytes > n_bytes / 8 ||
            answer->n_bytes % ARENA_GRANULE)
                return -EPROTO;
        return 0;
}

static int ask(struct pool *pool, uint64_t n_bytes, uint32_t properties, uint32_t wait_ms,
               struct message_leased *ret_answer, int *ret_fd)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        int r;

        request.lease.n_bytes = n_bytes;
        request.lease.pool = pool->row.id;
        request.lease.properties = properties;
        request.lease.wait_ms = wait_ms;
        r = link_call(pool->link, &request, MESSAGE_LEASE, MESSAGE_LEASED, &reply, &fds);
        if (r)
                return r;
        r = check_answer(&reply.leased, n_bytes);
        if (r)
                return r;
        *ret_answer = reply.leased;
        *ret_fd = fdset_steal(&fds, 0);
        return 0;
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
        struct leased *leased = calloc(1, sizeof(*leased));
        struct message_leased answer;
        int fd, r;

        if (!leased)
                return -ENOMEM;
        r = limit_take(pool, n_bytes);
        if (r) {
                free(leased);
                return r;
        }
        leased->n_bytes = n_bytes;
        r = ask(pool, n_bytes, properties, wait_ms, &answer, &fd);
        if (!r) {
                limit_correct(pool, n_bytes, answer.n_bytes);
                leased->lease = answer.lease;
                leased->n_bytes = answer.n_bytes;
                r = place(pool, leased, fd);
                if (r)
                        say_returned(pool, answer.lease);
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

int leased_attach(struct pool *pool, const struct message_attached *answer, int take_fd,
                  struct leased **ret_leased)
{
        CLEANUP(closep)
        int fd = take_fd;
        struct leased *leased = calloc(1, sizeof(*leased));
        int r = -ENOMEM;

        if (leased) {
                leased->lease = answer->lease;
                leased->n_bytes = answer->n_block_bytes;
                leased->is_attached = true;
                r = answer->n_block_bytes % ARENA_GRANULE ? -EPROTO
                                                          : place(pool, leased, steal_fd(&fd));
        }
        if (r) {
                say_detached(pool, answer->lease);
                free(leased);
                return r;
        }
        *ret_leased = leased;
        return 0;
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
