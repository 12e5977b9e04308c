/* SPDX-License-Identifier: Apache-2.0 */
/* The public functions that report: a client's statistics, a pointer's allocation, refusals, events. */
#include <stddef.h>
#include <string.h>

#include "base/err.h"
#include "client/api/client.h"
#include "client/api/default_client.h"
#include "client/pool/shared_alloc.h"
#include "client/runtime/last_error.h"
#include "driver/context.h"

int client_find_pool(struct gpumem_client *client, enum gpumem_kind kind, int32_t place,
                     struct pool **ret_pool)
{
        const struct cuda *cuda;
        struct pool *pool;
        int r = client_enter(&client);

        if (r)
                return r;
        if (kind != GPUMEM_DEVICE && kind != GPUMEM_PINNED)
                return GPUMEM_E_BAD_REQUEST;
        cuda = client_cuda(client);
        if (kind == GPUMEM_DEVICE && place == GPUMEM_NEAREST) {
                r = cuda ? context_device(cuda, &place) : GPUMEM_E_NO_DRIVER;
                if (r)
                        return r;
        }
        pool = client_pool_at(client, kind, place);
        if (!pool)
                return GPUMEM_E_NO_POOL;
        *ret_pool = pool;
        return 0;
}

/* Memory that is allocated while this is read may be counted twice, or not at all. */
static uint64_t less(uint64_t n, uint64_t n_off)
{
        return n > n_off ? n - n_off : 0;
}

/* What follows from the sums of the heaps. */
static void derive(struct gpumem_stats *stats, const struct pool *pool,
                   const struct heap_set_sums *held)
{
        uint64_t n_live = held->n_live + pool->n_alone;

        stats->n_free_bytes = less(stats->n_reserved_bytes,
                                   stats->n_allocated_bytes + pool->n_alone_rest_bytes);
        stats->n_cached_bytes = held->n_idle_bytes;
        stats->n_cached_blocks = held->n_idle_blocks;
        stats->n_inactive_split_bytes = less(stats->n_free_bytes, held->n_idle_bytes);
        stats->n_largest_free_bytes = held->n_largest_free_bytes;
        stats->n_free_extents = held->n_free_extents;
        stats->n_live = n_live;
        stats->n_allocations = stats->n_hits + stats->n_misses;
        stats->n_frees = less(stats->n_allocations, n_live);
        stats->n_splits = held->n_splits;
        stats->n_merges = held->n_merges;
        if (stats->n_free_bytes > stats->n_largest_free_bytes)
                stats->fragmentation = 1 - (double)stats->n_largest_free_bytes /
                                                   (double)stats->n_free_bytes;
}

static void read_stats(struct pool *pool, struct gpumem_stats *ret_stats)
{
        struct heap_set_sums held;
        struct board_sums sums;

        pthread_mutex_lock(&pool->lock);
        sums = board_sum(pool->counters.board);
        heap_set_sum(&pool->heap_set, &held);
        *ret_stats = (struct gpumem_stats){
                .n_requested_bytes = sums.requested,
                .n_requested_peak_bytes = atomic_load(&pool->counters.board->requested_peak),
                .n_allocated_bytes = sums.allocated,
                .n_allocated_peak_bytes = atomic_load(&pool->counters.board->allocated_peak),
                .n_reserved_bytes = pool->n_reserved_bytes,
                .n_reserved_peak_bytes = pool->n_reserved_peak_bytes,
                .n_hits = sums.hits,
                .n_misses = sums.misses,
                .n_blocks = pool->n_blocks,
                .n_limit_bytes = pool->limit.n_max_bytes,
                .n_cache_limit_bytes = pool->heap_set.budget.n_empty_max,
        };
        derive(ret_stats, pool, &held);
        pthread_mutex_unlock(&pool->lock);
}

int gpumem_get_stats(struct gpumem_client *client, enum gpumem_kind kind, int32_t place,
                     struct gpumem_stats *ret_stats)
{
        size_t n_bytes = ret_stats->struct_size;
        struct gpumem_stats stats;
        struct pool *pool;
        int r = check_struct(n_bytes, sizeof(stats));

        if (!r)
                r = client_find_pool(client, kind, place, &pool);
        if (r)
                return r;
        read_stats(pool, &stats);
        stats.struct_size = n_bytes;
        memcpy(ret_stats, &stats, n_bytes);
        return 0;
}

int gpumem_reset_peaks(struct gpumem_client *client, enum gpumem_kind kind, int32_t place)
{
        struct pool *pool;
        int r = client_find_pool(client, kind, place, &pool);

        if (!r)
                pool_reset_peaks(pool);
        return r;
}

static int describe_in(struct pool *pool, const void *pointer, struct gpumem_info *ret_info)
{
        int r = pool_describe(pool, pointer, ret_info);

        if (r == GPUMEM_E_NOT_OURS)
                r = shared_alloc_describe(pool, pointer, ret_info);
        /* The driver knows memory that it has made itself. */
        if (!r && pool->memory.kind == GPUMEM_PINNED && pool->memory.pinned == MEMORY_VMM)
                ret_info->is_registered = 1;
        return r;
}

int gpumem_describe(struct gpumem_client *client, const void *pointer, struct gpumem_info *ret_info)
{
        struct gpumem_info info = {.struct_size = ret_info->struct_size};
        int r = client_enter(&client);
        struct pool *pool;

        if (!r)
                r = check_struct(info.struct_size, sizeof(info));
        if (r)
                return r;
        r = GPUMEM_E_NOT_OURS;
        for (uint32_t i = 0; r == GPUMEM_E_NOT_OURS && (pool = client_pool(client, i)); i++)
                r = describe_in(pool, pointer, &info);
        if (!r && client_has_deferred(client, info.base))
                r = GPUMEM_E_NOT_OURS;
        if (!r)
                debug_describe(&client->debug, &info);
        if (!r)
                memcpy(ret_info, &info, info.struct_size);
        return r;
}

/* r != 0: there is none. */
static int give_refusal(int r, struct gpumem_refusal *refusal, struct gpumem_refusal *ret_refusal)
{
        size_t n_bytes = ret_refusal->struct_size;

        if (!r)
                r = check_struct(n_bytes, sizeof(*refusal));
        if (r)
                return r;
        refusal->struct_size = n_bytes;
        memcpy(ret_refusal, refusal, n_bytes);
        return 0;
}

/* Does not connect: if there is no default client, its connect may have failed, which is the refusal. */
int gpumem_last_refusal(struct gpumem_client *client, struct gpumem_refusal *ret_refusal)
{
        struct gpumem_refusal refusal;
        int r;

        if (!client)
                client = default_client_present();
        r = client ? client_enter(&client) : 0;
        if (!r)
                r = last_error_get(client ? client_number(client) : LAST_ERROR_NO_CLIENT, &refusal);
        return give_refusal(r, &refusal, ret_refusal);
}

int gpumem_connect_refusal(struct gpumem_refusal *ret_refusal)
{
        struct gpumem_refusal refusal;

        return give_refusal(last_error_get_of_connect(&refusal), &refusal, ret_refusal);
}

int gpumem_set_event_callback(struct gpumem_client *client, gpumem_event_callback *callback,
                              void *argument)
{
        int r = client_enter(&client);

        if (!r)
                r = events_set(client_events(client), callback, argument);
        if (!r && callback)
                client_listen(client);
        return r;
}
