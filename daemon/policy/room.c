#include "daemon/policy/room.h"

#include "daemon/policy/block.h"
#include "daemon/policy/pool.h"
#include "daemon/policy/tenant.h"

static bool is_kind(const struct block *block, enum room_kind kind)
{
        return block_is_mapped(block) == (kind == ROOM_MAPPED);
}

static uint64_t evict_own(struct holding *holding, uint64_t n_bytes, enum room_kind kind)
{
        struct block *block, *next;
        uint64_t n_evicted_bytes = 0;

        for (block = TAILQ_FIRST(&holding->cached); block && n_evicted_bytes < n_bytes;
             block = next) {
                next = TAILQ_NEXT(block, holding_cached_link);
                if (!is_kind(block, kind))
                        continue;
                n_evicted_bytes += block->bin->n_bytes;
                block_let_go(block);
        }
        return n_evicted_bytes;
}

static uint64_t evict_any(struct pool *pool, uint64_t n_bytes, enum room_kind kind)
{
        struct block *block, *next;
        uint64_t n_evicted_bytes = 0;

        for (block = TAILQ_FIRST(&pool->cached); block && n_evicted_bytes < n_bytes; block = next) {
                next = TAILQ_NEXT(block, pool_cached_link);
                if (!is_kind(block, kind))
                        continue;
                n_evicted_bytes += block->bin->n_bytes;
                block_let_go(block);
        }
        return n_evicted_bytes;
}

uint64_t room_evict(struct holding *asker, uint64_t n_bytes, enum room_kind kind)
{
        uint64_t n_own_bytes = evict_own(asker, n_bytes, kind);

        /* Of its own nothing of this kind is left if that was not enough. */
        if (n_own_bytes >= n_bytes)
                return n_own_bytes;
        return n_own_bytes + evict_any(asker->pool, n_bytes - n_own_bytes, kind);
}

void room_call_in(struct holding *asker, uint64_t n_missing_bytes)
{
        const struct totals *totals = &asker->pool->totals;
        uint64_t n_hoped_bytes = totals->evictable + totals->mapped_lingering;

        if (n_missing_bytes <= n_hoped_bytes)
                return;
        n_missing_bytes -= n_hoped_bytes;
        if (n_missing_bytes <= totals->mapped_cached)
                (void)room_evict(asker, n_missing_bytes, ROOM_MAPPED);
}

void room_trim(struct pool *pool)
{
        (void)evict_any(pool, pool_excess(pool), ROOM_UNMAPPED);
        (void)evict_any(pool, pool_excess(pool), ROOM_MAPPED);
}
