/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/pool_rebinding.h"

#include <string.h>

#include "base/err.h"
#include "client/blocks/binding.h"
#include "client/blocks/client_limit.h"
#include "client/blocks/lease.h"
#include "client/pool/idle_marking.h"
#include "client/pool/pool.h"
#include "driver/device.h"

/* Describes a pool's memory in this process, where its device may have another number, or be hidden. */
static struct memory memory_of(const struct cuda *cuda, const struct pool_row *row)
{
        struct memory memory = {.kind = (enum gpumem_kind)row->kind,
                                .cuda = cuda,
                                .ordinal = -1,
                                .pinned = row->properties & PROTO_POOL_VMM ? MEMORY_VMM
                                                                           : MEMORY_MEMFD,
                                .node = (int)row->place};
        struct device device;

        memory.is_ipc = row->kind == GPUMEM_DEVICE && row->properties & PROTO_POOL_LEGACY;
        if (row->kind == GPUMEM_DEVICE && cuda && device_find(cuda, row->uuid, &device) == 0)
                memory.ordinal = device.ordinal;
        return memory;
}

static bool is_same(const struct pool_row *one, const struct pool_row *other)
{
        if (one->kind != other->kind || one->properties != other->properties)
                return false;
        return one->kind == GPUMEM_DEVICE ? memcmp(one->uuid, other->uuid, sizeof(one->uuid)) == 0
                                          : one->place == other->place;
}

uint64_t pool_rebinding_detach(const struct pool_set *set)
{
        uint64_t n_bytes = 0;

        for (uint32_t i = 0; i < *set->n_pools; i++) {
                struct pool *pool = &set->pools[i];

                pthread_mutex_lock(&pool->lock);
                pool->binding.connection = 0;
                lease_lose_words(pool);
                pool->binding.n_held_bytes += pool->binding.n_leased_bytes;
                pool->binding.n_leased_bytes = 0;
                n_bytes += pool->binding.n_held_bytes;
                pthread_mutex_unlock(&pool->lock);
        }
        return n_bytes;
}

static void attach(struct pool *pool, const struct connection *connection, uint32_t id)
{
        pthread_mutex_lock(&pool->lock);
        __atomic_store_n(&pool->row.id, id, __ATOMIC_RELAXED);
        pool->binding.connection = connection->serial;
        pool->binding.is_missing = false;
        pool_move_board(pool, board_pool(connection->board, id));
        heap_set_bound(&pool->heap_set, connection->n_slots);
        pthread_mutex_unlock(&pool->lock);
}

/* The present daemon does not have the pool, so its counters have no board, and are kept here. */
static void attach_missing(struct pool *pool, const struct connection *connection)
{
        pthread_mutex_lock(&pool->lock);
        pool->binding.connection = connection->serial;
        pool->binding.is_missing = true;
        pool_move_board(pool, NULL);
        pthread_mutex_unlock(&pool->lock);
}

/* The pool's number on the connection, or n_rows. */
static uint32_t find_row(const struct connection *connection, const struct pool *pool)
{
        uint32_t id = 0;

        while (id < connection->n_rows && !is_same(&connection->rows[id], &pool->row))
                id++;
        return id;
}

static bool is_known(const struct pool_set *set, uint32_t n_pools, const struct pool_row *row)
{
        for (uint32_t i = 0; i < n_pools; i++) {
                if (is_same(&set->pools[i].row, row))
                        return true;
        }
        return false;
}

static uint64_t limit_of(const struct pool_set *set, const struct pool_row *row)
{
        uint64_t n_bytes = client_limit_of_fraction(set->fraction, row->n_capacity_bytes);

        return n_bytes < set->n_limit_bytes ? n_bytes : set->n_limit_bytes;
}

/* A thread that sets another size resizes the pools that it sees: this one, or it is seen here. */
static void follow_cache_size(struct pool *pool, const _Atomic uint64_t *n_cache_bytes,
                              uint64_t n_bytes)
{
        uint64_t n_now;

        while ((n_now = atomic_load(n_cache_bytes)) != n_bytes) {
                idle_marking_resize(pool, n_now);
                n_bytes = n_now;
        }
}

/* Adds a pool. Other threads see it only when it is complete. */
static int add(const struct pool_set *set, const struct connection *connection, uint32_t id)
{
        const struct pool_row *row = &connection->rows[id];
        uint64_t n_cache_bytes = atomic_load(set->n_cache_bytes);
        struct memory memory = memory_of(set->cuda, row);
        uint32_t n_pools = *set->n_pools;

        if (n_pools == PROTO_POOLS_MAX)
                return -E2BIG;
        pool_init(&set->pools[n_pools], row, &memory, set->reconnector, set->service, set->streams,
                  n_cache_bytes);
        if (row->kind == GPUMEM_DEVICE)
                client_limit_set(&set->pools[n_pools], limit_of(set, row));
        attach(&set->pools[n_pools], connection, id);
        *set->n_pools = n_pools + 1;
        follow_cache_size(&set->pools[n_pools], set->n_cache_bytes, n_cache_bytes);
        return 0;
}

int pool_rebinding_attach(const struct pool_set *set, const struct connection *connection)
{
        uint32_t n_known = *set->n_pools;
        int r = 0;

        for (uint32_t i = 0; i < n_known; i++) {
                uint32_t id = find_row(connection, &set->pools[i]);

                if (id < connection->n_rows)
                        attach(&set->pools[i], connection, id);
                else
                        attach_missing(&set->pools[i], connection);
        }
        for (uint32_t id = 0; id < connection->n_rows && !r; id++) {
                /* Skips pools whose blocks this version cannot map. */
                if (connection->rows[id].properties & ~PROTO_POOL_PROPERTIES)
                        continue;
                if (!is_known(set, n_known, &connection->rows[id]))
                        r = add(set, connection, id);
        }
        /* The connection is given up, so no pool may write to its board any more. */
        for (uint32_t i = 0; r && i < *set->n_pools; i++)
                attach_missing(&set->pools[i], connection);
        return r;
}

void pool_rebinding_declare(const struct pool_set *set)
{
        for (uint32_t i = 0; i < *set->n_pools; i++)
                binding_declare(&set->pools[i]);
}
