/* The public functions about what a client has of one pool, and how much it may have. */
#include <stddef.h>
#include <string.h>

#include "base/err.h"
#include "client/api/client.h"
#include "client/blocks/client_limit.h"
#include "driver/context.h"

/* As gpumem_alloc reads kind and place. */
static int find_pool(struct gpumem_client *client, enum gpumem_kind kind, int32_t place,
                     struct pool **ret_pool)
{
        const struct cuda *cuda = client_cuda(client);
        struct pool *pool;
        int r = client_check(client);

        if (r)
                return r;
        if (kind != GPUMEM_DEVICE && kind != GPUMEM_PINNED)
                return GPUMEM_E_BAD_REQUEST;
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

/* Of one number that the holes of every heap keep. The caller has the lock. */
static uint64_t pool_sum_heaps(struct pool *pool, size_t offset)
{
        struct stream_heap *heap, *next;
        uint64_t sum = 0;

        HASH_ITER(hh, pool->heaps, heap, next)
        {
                spin_lock(&heap_in(heap)->lock);
                sum += *(const uint64_t *)(const void *)((const char *)&heap_in(heap)->extents +
                                                         offset);
                spin_unlock(&heap_in(heap)->lock);
        }
        return sum;
}

static void read_stats(struct pool *pool, struct gpumem_stats *ret_stats)
{
        struct board_sums sums;

        pthread_mutex_lock(&pool->lock);
        sums = board_sum(pool->counters.board);
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
                .n_splits = pool_sum_heaps(pool, offsetof(struct extents, n_splits)),
                .n_merges = pool_sum_heaps(pool, offsetof(struct extents, n_merges)),
        };
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
                r = find_pool(client, kind, place, &pool);
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
        int r = find_pool(client, kind, place, &pool);

        if (!r)
                pool_reset_peaks(pool);
        return r;
}

int gpumem_set_limit(struct gpumem_client *client, enum gpumem_kind kind, int32_t place,
                     uint64_t n_bytes)
{
        struct pool *pool;
        int r = find_pool(client, kind, place, &pool);

        if (!r)
                client_limit_set(pool, n_bytes);
        return r;
}
