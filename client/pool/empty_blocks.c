/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/empty_blocks.h"

#include "base/clock.h"
#include "client/blocks/retained.h"
#include "client/reserve/idle_list.h"
#include "gpumem.h"

/* How often a wait that fails in the driver is tried. */
#define N_WAITS 3

void empty_blocks_poll(struct pool *pool)
{
        struct stream_heap *heap, *next;

        streams_poll(pool->streams);
        HASH_ITER(hh, pool->heaps, heap, next)
        {
                fences_poll(&heap->fences, heap_in(heap), pool->streams, heap->key.context);
        }
}

static bool take(struct pool *pool, struct heap_block *block, struct leased_list *list)
{
        if (!block)
                return false;
        heap_set_forget(&pool->heap_set, block->at.n_bytes);
        pool_discount_block(pool, block->at.n_bytes);
        LIST_INSERT_HEAD(list, CONTAINER_OF(block, struct leased, block), link);
        return true;
}

bool empty_blocks_take_one(struct pool *pool, uint64_t start, uint64_t end,
                           struct leased_list *list)
{
        return take(pool, heap_set_take_idle(&pool->heap_set, start, end), list);
}

/* Does the return of a block wait for no kernels? */
static bool returns_at_once(const struct pool *pool)
{
        if (!pool->memory.cuda)
                return true;
        return pool->memory.kind == GPUMEM_DEVICE ? !pool->memory.is_ipc
                                                  : pool->memory.pinned == MEMORY_VMM;
}

/* May blocks be returned unasked? */
static bool returns_by_itself(const struct pool *pool)
{
        return heap_set_is_bounded(&pool->heap_set) || returns_at_once(pool);
}

void empty_blocks_make_room(struct pool *pool, uint64_t n_more_bytes, uint64_t start, uint64_t end,
                            struct leased_list *list)
{
        while (returns_by_itself(pool) &&
               heap_set_excess(&pool->heap_set, n_more_bytes, pool_now_us(pool)) &&
               empty_blocks_take_one(pool, start, end, list))
                ;
}

void empty_blocks_take_excess(struct pool *pool, struct leased_list *list)
{
        if (!returns_at_once(pool))
                return;
        empty_blocks_make_room(pool, 0, 0, 0, list);
        empty_blocks_set_floors(pool);
}

void empty_blocks_take_all(struct pool *pool, struct leased_list *list)
{
        while (empty_blocks_take_one(pool, 0, 0, list))
                ;
        retained_take_revoked(pool, RETAINED_DROP_ALL, list);
}

bool empty_blocks_is_fenced(const struct stream_heap *heap)
{
        return heap->pool->memory.kind == GPUMEM_DEVICE && heap->key.context &&
               !pool_is_captured(heap);
}

bool empty_blocks_is_still(struct stream_heap *heap, uint64_t generation)
{
        bool same;

        spin_lock(&heap_in(heap)->lock);
        same = heap->live && heap->generation == generation;
        spin_unlock(&heap_in(heap)->lock);
        return same;
}

/* Ends the epoch. Returns how many epochs are over when all work up to now is. */
static uint64_t end_epoch(struct stream_heap *heap)
{
        uint64_t n_epochs;

        spin_lock(&heap_in(heap)->lock);
        n_epochs = heap_new_epoch(heap_in(heap)) + 1;
        spin_unlock(&heap_in(heap)->lock);
        return n_epochs;
}

/* The wait has failed: the next epoch, which counts as not empty now, covers these frees, too. */
static void open_epoch(struct stream_heap *heap)
{
        spin_lock(&heap_in(heap)->lock);
        heap_in(heap)->n_freed_bytes++;
        spin_unlock(&heap_in(heap)->lock);
}

/* Where a cache size is exceeded, the frees of the heap are waited for. What is within it, and yet more than was needed
 * lately, goes back when its work is over. The caller has the lock, which is dropped meanwhile. */
static void wait_for_stream(struct stream_heap *heap, uint64_t generation, void *const *own_stream)
{
        struct pool *pool = heap->pool;
        uint64_t context = heap->key.context, n_epochs = end_epoch(heap);
        int r = 0;

        if (empty_blocks_is_fenced(heap)) {
                pthread_mutex_unlock(&pool->lock);
                r = streams_wait(pool->streams, context, own_stream);
                pthread_mutex_lock(&pool->lock);
        }
        if (!empty_blocks_is_still(heap, generation))
                return;
        if (!r) {
                fences_pass(&heap->fences, heap_in(heap), n_epochs);
                return;
        }
        open_epoch(heap);
}

/* Do other streams want this one's blocks, or could they use them? */
static bool is_asked(struct stream_heap *heap)
{
        bool asked;

        spin_lock(&heap_in(heap)->lock);
        asked = scan_trigger_asks(&heap->trigger, heap_in(heap));
        spin_unlock(&heap_in(heap)->lock);
        return asked;
}

static bool is_last(struct stream_heap *heap)
{
        bool last;

        spin_lock(&heap_in(heap)->lock);
        last = scan_trigger_is_last(&heap->trigger, heap_in(heap));
        spin_unlock(&heap_in(heap)->lock);
        return last;
}

static void look_again_later(struct stream_heap *heap, uint64_t n_excess_bytes)
{
        const struct heap_set *set = &heap->pool->heap_set;
        uint64_t now_us = clock_now_us();

        spin_lock(&heap_in(heap)->lock);
        scan_trigger_done(&heap->trigger, set, heap_in(heap), n_excess_bytes);
        scan_trigger_grant_last(&heap->trigger, set->n_heaps, now_us);
        if (!heap_set_is_short(set, now_us))
                scan_trigger_end_short(&heap->trigger);
        spin_unlock(&heap_in(heap)->lock);
}

/* Each free from here on looks, and finds the lock taken: none is missed until the floors are lower. Returns what is
 * allocated in all heaps. */
static uint64_t raise_floors(struct pool *pool, uint32_t *ret_n_heaps)
{
        struct stream_heap *heap, *next;
        uint64_t n_bytes = 0;

        *ret_n_heaps = 0;
        HASH_ITER(hh, pool->heaps, heap, next)
        {
                uint64_t n_allocated;

                spin_lock(&heap_in(heap)->lock);
                n_allocated = scan_trigger_allocated(heap_in(heap));
                scan_trigger_set_floor(&heap->trigger, n_allocated);
                spin_unlock(&heap_in(heap)->lock);
                n_bytes += n_allocated;
                *ret_n_heaps += n_allocated > 0;
        }
        return n_bytes;
}

/* Where a share is less than a block, the heap would look so often that it may as well look for each block. */
static void lower_floor(struct stream_heap *heap, uint64_t n_share)
{
        struct scan_trigger *trigger = &heap->trigger;
        uint64_t n_bytes = trigger->n_floor_bytes;

        if (n_share < HEAP_BLOCK_UNIT)
                scan_trigger_set_floor(trigger, UINT64_MAX);
        else
                scan_trigger_set_floor(trigger, n_bytes > n_share ? n_bytes - n_share : 0);
}

/* What may still become empty is divided among the heaps that have anything to free. */
void empty_blocks_set_floors(struct pool *pool)
{
        struct stream_heap *heap, *next;
        uint64_t n_allocated, n_share;
        uint32_t n_heaps;

        if (!heap_set_is_bounded(&pool->heap_set))
                return;
        n_allocated = raise_floors(pool, &n_heaps);
        n_share = heap_set_spare(&pool->heap_set, n_allocated) / (n_heaps ? n_heaps : 1);
        HASH_ITER(hh, pool->heaps, heap, next)
        {
                spin_lock(&heap_in(heap)->lock);
                lower_floor(heap, n_share);
                spin_unlock(&heap_in(heap)->lock);
        }
}

/* A heap without an empty block gives none back: what is held above the budget is held by others. What a look leaves
 * that must not wait, a later one returns. The caller has the lock. */
static void look(struct stream_heap *heap, uint64_t generation, void *const *own_stream,
                 enum look_patience patience, struct leased_list *list)
{
        struct pool *pool = heap->pool;
        uint64_t n_excess = heap_set_excess(&pool->heap_set, 0, pool_now_us(pool));
        bool may_give;

        if (!empty_blocks_is_still(heap, generation))
                return;
        may_give = n_excess && heap_set_is_empty_in(&heap->in_set);
        if (may_give && patience == LOOK_MAY_WAIT && heap_set_exceeds_cache(&pool->heap_set))
                wait_for_stream(heap, generation, own_stream);
        if (!empty_blocks_is_still(heap, generation))
                return;
        if (own_stream && empty_blocks_is_fenced(heap) && (may_give || is_asked(heap)))
                fences_record(&heap->fences, heap_in(heap), pool->streams, &heap->key, *own_stream);
        empty_blocks_poll(pool);
        if (n_excess && (patience == LOOK_MAY_WAIT || returns_at_once(pool)))
                empty_blocks_make_room(pool, 0, 0, 0, list);
        n_excess = heap_set_excess(&pool->heap_set, 0, pool_now_us(pool));
        look_again_later(heap, may_give ? n_excess : 0);
        empty_blocks_set_floors(pool);
}

void empty_blocks_look(struct stream_heap *heap, uint64_t generation, void *const *own_stream,
                       enum look_patience patience)
{
        struct leased_list list = LIST_HEAD_INITIALIZER(list);
        struct pool *pool = heap->pool;

        if (!returns_by_itself(pool))
                return;
        /* A look without a cache size may be skipped while another thread looks. */
        if (heap_set_is_bounded(&pool->heap_set) || is_last(heap))
                pthread_mutex_lock(&pool->lock);
        else if (pthread_mutex_trylock(&pool->lock))
                return;
        look(heap, generation, own_stream, patience, &list);
        pthread_mutex_unlock(&pool->lock);
        leased_free_all(pool, &list);
}

/* At the client's end all blocks are unmapped, waited for or not, so a driver that fails once is asked again. */
static int synchronize(const struct pool *pool, uint64_t context)
{
        int r = -EIO;

        for (unsigned i = 0; r && i < N_WAITS; i++)
                r = stream_synchronize_context(pool->memory.cuda, context);
        return r;
}

/* Ends the epochs of one context's heaps, waits for its work, and marks these epochs as over. */
static void wait_for_context(struct pool *pool, uint64_t context)
{
        struct stream_heap *heap, *next;
        uint32_t n_heaps = 0;
        int r = 0;

        pthread_mutex_lock(&pool->lock);
        HASH_ITER(hh, pool->heaps, heap, next)
        {
                if (heap->key.context != context || pool_is_captured(heap))
                        continue;
                heap->n_flush_epochs = end_epoch(heap);
                n_heaps++;
        }
        pthread_mutex_unlock(&pool->lock);
        if (n_heaps)
                r = synchronize(pool, context);
        pthread_mutex_lock(&pool->lock);
        HASH_ITER(hh, pool->heaps, heap, next)
        {
                if (heap->key.context != context || pool_is_captured(heap))
                        continue;
                if (r)
                        open_epoch(heap);
                else
                        fences_pass(&heap->fences, heap_in(heap), heap->n_flush_epochs);
        }
        pthread_mutex_unlock(&pool->lock);
}

/* The lowest context above `above` that heaps belong to; 0: none. */
static uint64_t next_context(struct pool *pool, uint64_t above)
{
        struct stream_heap *heap, *next;
        uint64_t found = 0;

        pthread_mutex_lock(&pool->lock);
        HASH_ITER(hh, pool->heaps, heap, next)
        {
                if (heap->key.context > above && (!found || heap->key.context < found))
                        found = heap->key.context;
        }
        pthread_mutex_unlock(&pool->lock);
        return found;
}

/* The caller has `flushing`. */
static void wait_for_all(struct pool *pool)
{
        uint64_t context = 0;

        while (pool->memory.kind == GPUMEM_DEVICE && (context = next_context(pool, context)))
                wait_for_context(pool, context);
}

void empty_blocks_wait(struct pool *pool)
{
        pthread_mutex_lock(&pool->flushing);
        wait_for_all(pool);
        pthread_mutex_unlock(&pool->flushing);
}

void empty_blocks_to_budget(struct pool *pool)
{
        struct leased_list list = LIST_HEAD_INITIALIZER(list);
        bool is_beyond;

        pthread_mutex_lock(&pool->flushing);
        pthread_mutex_lock(&pool->lock);
        is_beyond = heap_set_excess(&pool->heap_set, 0, pool_now_us(pool)) > 0;
        pthread_mutex_unlock(&pool->lock);
        if (is_beyond)
                wait_for_all(pool);
        pthread_mutex_lock(&pool->lock);
        empty_blocks_make_room(pool, 0, 0, 0, &list);
        pthread_mutex_unlock(&pool->lock);
        pthread_mutex_unlock(&pool->flushing);
        leased_free_all(pool, &list);
}

static bool is_reserved_above(struct pool *pool, uint64_t n_bytes)
{
        bool is_above;

        pthread_mutex_lock(&pool->lock);
        is_above = pool->n_reserved_bytes > n_bytes;
        pthread_mutex_unlock(&pool->lock);
        return is_above;
}

uint64_t empty_blocks_down_to(struct pool *pool, uint64_t n_keep_bytes)
{
        struct leased_list list = LIST_HEAD_INITIALIZER(list);
        uint64_t n_bytes;

        if (!is_reserved_above(pool, n_keep_bytes))
                return 0;
        pthread_mutex_lock(&pool->flushing);
        wait_for_all(pool);
        pthread_mutex_lock(&pool->lock);
        n_bytes = pool->n_reserved_bytes;
        while (pool->n_reserved_bytes > n_keep_bytes && empty_blocks_take_one(pool, 0, 0, &list))
                ;
        n_bytes -= pool->n_reserved_bytes;
        pthread_mutex_unlock(&pool->lock);
        pthread_mutex_unlock(&pool->flushing);
        leased_free_all(pool, &list);
        return n_bytes;
}

uint64_t empty_blocks_older(struct pool *pool, uint64_t at_us)
{
        struct leased_list list = LIST_HEAD_INITIALIZER(list);
        uint64_t n_bytes;

        pthread_mutex_lock(&pool->lock);
        n_bytes = pool->n_reserved_bytes;
        while (take(pool, heap_set_take_older(&pool->heap_set, at_us), &list))
                ;
        n_bytes -= pool->n_reserved_bytes;
        pthread_mutex_unlock(&pool->lock);
        leased_free_all(pool, &list);
        return n_bytes;
}

uint64_t empty_blocks_flush(struct pool *pool)
{
        struct leased_list list = LIST_HEAD_INITIALIZER(list);
        uint64_t n_bytes;

        pthread_mutex_lock(&pool->flushing);
        wait_for_all(pool);
        pthread_mutex_lock(&pool->lock);
        n_bytes = pool->n_reserved_bytes;
        empty_blocks_take_all(pool, &list);
        n_bytes -= pool->n_reserved_bytes;
        pthread_mutex_unlock(&pool->lock);
        pthread_mutex_unlock(&pool->flushing);
        leased_free_all(pool, &list);
        leased_free_stuck(pool);
        return n_bytes;
}

static bool has_empty(struct pool *pool)
{
        bool found;

        pthread_mutex_lock(&pool->lock);
        found = heap_set_has_empty(&pool->heap_set) || retained_has_any(pool);
        pthread_mutex_unlock(&pool->lock);
        return found;
}

void empty_blocks_all(struct pool *pool)
{
        if (has_empty(pool))
                (void)empty_blocks_flush(pool);
}
