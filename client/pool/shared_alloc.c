/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/shared_alloc.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/fdset.h"
#include "client/blocks/lease.h"
#include "client/heap/heap.h"

struct shared_alloc {
        struct shared_alloc_info info;
        struct leased *leased;
        LIST_ENTRY(shared_alloc) link;
};

/* Takes `shared` over, and makes it found by its pointer. */
static void *add(struct pool *pool, struct shared_alloc *take_shared, struct leased *leased)
{
        take_shared->leased = leased;
        take_shared->info.lease = leased->block.lease;
        take_shared->info.connection = leased->connection;
        pthread_mutex_lock(&pool->lock);
        leased->shared = take_shared;
        LIST_INSERT_HEAD(&pool->shareds, take_shared, link);
        if (take_shared->info.kind == SHARED_ALLOC_OWN)
                pool_count_come(pool, take_shared->info.n_bytes, leased_bytes(leased));
        pthread_mutex_unlock(&pool->lock);
        return (void *)(uintptr_t)leased_address(leased);
}

/* Makes it unreachable by its pointer; the caller has the lock. */
static struct leased *take_out(struct pool *pool, struct shared_alloc *shared)
{
        struct leased *leased = shared->leased;

        if (shared->info.kind == SHARED_ALLOC_OWN)
                pool_count_gone(pool, shared->info.n_bytes, leased_bytes(leased));
        LIST_REMOVE(shared, link);
        leased->shared = NULL;
        free(shared);
        return leased;
}

static int record_new(const struct shared_alloc_info *info, struct shared_alloc **ret_shared)
{
        struct shared_alloc *shared = calloc(1, sizeof(*shared));

        if (!shared)
                return -ENOMEM;
        shared->info = *info;
        *ret_shared = shared;
        return 0;
}

static uint32_t properties_of(uint32_t flags)
{
        uint32_t properties = flags & GPUMEM_SHAREABLE ? PROTO_PROPERTY_SHAREABLE : 0;

        if (flags & GPUMEM_RDMA)
                return properties | PROTO_PROPERTY_REGISTERED | PROTO_PROPERTY_RDMA;
        return flags & GPUMEM_REGISTERED ? properties | PROTO_PROPERTY_REGISTERED : properties;
}

int shared_alloc_new(struct pool *pool, const struct stream_key *key,
                     const struct gpumem_request *request, void **ret_pointer)
{
        const struct shared_alloc_info info = {.kind = SHARED_ALLOC_OWN,
                                               .properties = properties_of(request->flags),
                                               .n_bytes = request->n_bytes,
                                               .key = *key};
        CLEANUP(freep)
        struct shared_alloc *shared = NULL;
        struct leased *leased;
        uint64_t n_block_bytes;
        int r;

        if (size_round_up(request->n_bytes, HEAP_BLOCK_UNIT, &n_block_bytes))
                return GPUMEM_E_TOO_LARGE;
        r = record_new(&info, &shared);
        if (r)
                return r;
        pthread_mutex_lock(&pool->lock);
        r = leased_reserve(pool, 0, n_block_bytes, &leased);
        pthread_mutex_unlock(&pool->lock);
        if (!r)
                r = leased_obtain_new(pool, leased, n_block_bytes, info.properties,
                                      request->wait_ms);
        if (r)
                return r;
        *ret_pointer = add(pool, steal_ptr(shared), leased);
        return 0;
}

int shared_alloc_attach(struct pool *pool, const struct stream_key *key, uint64_t connection,
                        const struct message_attached *answer, int take_fd, bool *ret_is_stuck,
                        void **ret_pointer)
{
        const struct shared_alloc_info info = {
                .kind = SHARED_ALLOC_ATTACHED, .n_bytes = answer->n_bytes, .key = *key};
        CLEANUP(freep)
        struct shared_alloc *shared = NULL;
        struct leased *leased;
        int r;

        r = record_new(&info, &shared);
        if (r) {
                closep(&take_fd);
                return r;
        }
        r = leased_attach(pool, connection, answer, take_fd, ret_is_stuck, &leased);
        if (r)
                return r;
        *ret_pointer = add(pool, steal_ptr(shared), leased);
        return 0;
}

/* The allocation that starts at the pointer, or NULL; the caller has the lock. */
static struct shared_alloc *at(const struct pool *pool, const void *pointer)
{
        uint64_t address = (uint64_t)(uintptr_t)pointer;
        const struct leased *leased = NULL;

        if (pool->arena)
                leased = leased_of(arena_find(pool->arena, address));
        return leased && leased_address(leased) == address ? leased->shared : NULL;
}

/* If it was made or attached without a context and registered later, any stream may use it. */
static struct shared_alloc_info info_of(const struct shared_alloc *shared)
{
        struct shared_alloc_info info = shared->info;

        if (!info.key.context && shared->leased->context)
                info.key = (struct stream_key){.context = shared->leased->context,
                                               .id = POOL_ANY_STREAM};
        return info;
}

int shared_alloc_find(struct pool *pool, const void *pointer, struct shared_alloc_info *ret_info)
{
        const struct shared_alloc *shared;

        pthread_mutex_lock(&pool->lock);
        shared = at(pool, pointer);
        if (shared)
                *ret_info = info_of(shared);
        pthread_mutex_unlock(&pool->lock);
        return shared ? 0 : GPUMEM_E_NOT_OURS;
}

/* The block of the allocation in which the address lies, or NULL; the caller has the lock. */
static const struct leased *block_around(const struct pool *pool, uint64_t address)
{
        const struct leased *leased = NULL;

        if (pool->arena)
                leased = leased_of(arena_find(pool->arena, address));
        return leased && leased->shared &&
                               address - leased_address(leased) < leased->shared->info.n_bytes
                       ? leased
                       : NULL;
}

int shared_alloc_find_within(struct pool *pool, const void *pointer,
                             struct shared_alloc_info *ret_info, uint64_t *ret_n_bytes)
{
        uint64_t address = (uint64_t)(uintptr_t)pointer;
        const struct leased *leased;

        pthread_mutex_lock(&pool->lock);
        leased = block_around(pool, address);
        if (leased) {
                *ret_info = info_of(leased->shared);
                *ret_n_bytes = leased_address(leased) + ret_info->n_bytes - address;
        }
        pthread_mutex_unlock(&pool->lock);
        return leased ? 0 : GPUMEM_E_NOT_OURS;
}

int shared_alloc_describe(struct pool *pool, const void *pointer, struct gpumem_info *ret_info)
{
        const struct leased *leased;
        int r = GPUMEM_E_NOT_OURS;

        pthread_mutex_lock(&pool->lock);
        leased = block_around(pool, (uint64_t)(uintptr_t)pointer);
        if (leased) {
                leased_describe(pool, leased, ret_info);
                ret_info->base = (void *)(uintptr_t)leased_address(leased);
                ret_info->n_requested_bytes = leased->shared->info.n_bytes;
                ret_info->n_allocated_bytes = leased_bytes(leased);
                r = 0;
        }
        pthread_mutex_unlock(&pool->lock);
        return r;
}

int shared_alloc_end(struct pool *pool, const void *pointer, uint64_t lease)
{
        struct leased *leased = NULL;
        struct shared_alloc *shared;

        pthread_mutex_lock(&pool->lock);
        shared = at(pool, pointer);
        if (shared && shared->info.lease == lease)
                leased = take_out(pool, shared);
        pthread_mutex_unlock(&pool->lock);
        if (!leased)
                return GPUMEM_E_NOT_OURS;
        leased_free(pool, leased);
        return 0;
}

void shared_alloc_return_all(struct pool *pool)
{
        while (!LIST_EMPTY(&pool->shareds)) {
                struct leased *leased;

                pthread_mutex_lock(&pool->lock);
                leased = take_out(pool, LIST_FIRST(&pool->shareds));
                pthread_mutex_unlock(&pool->lock);
                leased_free(pool, leased);
        }
}
