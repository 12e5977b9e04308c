/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/stream_heaps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/pool/idle_marking.h"

/* From this number of heaps on, heaps without blocks are retired, for other streams; next time when twice as many are
 * there as are left. So heaps whose blocks come and go stay, each with what it may record, and a walk is rare. */
#define HEAPS_MANY 32

/* A thread that counts holds one of these locks. */
static void lock_heaps(struct pool *pool)
{
        struct stream_heap *heap, *next;

        HASH_ITER(hh, pool->heaps, heap, next)
        {
                spin_lock(&heap_in(heap)->lock);
        }
}

static void unlock_heaps(struct pool *pool)
{
        struct stream_heap *heap, *next;

        HASH_ITER(hh, pool->heaps, heap, next)
        {
                spin_unlock(&heap_in(heap)->lock);
        }
}

void pool_move_board(struct pool *pool, struct board_pool *board)
{
        lock_heaps(pool);
        counters_move(&pool->counters, board);
        unlock_heaps(pool);
}

/* A thread that reads the mark without the lock sees the old one, the new one, or none: never half of each. */
void pool_set_mark(struct stream_heap *heap, const struct stream_mark *mark)
{
        atomic_store(&heap->mark.scope, stream_mark_none.scope);
        atomic_store(&heap->mark.id, mark->id);
        atomic_store(&heap->mark.scope, mark->scope);
}

/* The record is kept: a thread may still reach it by a stream that had it. */
static void end_heap(struct pool *pool, struct stream_heap *heap)
{
        spin_lock(&heap_in(heap)->lock);
        heap->live = false;
        pool_set_mark(heap, &stream_mark_none);
        heap_set_remove(&pool->heap_set, &heap->in_set);
        spin_unlock(&heap_in(heap)->lock);
        fences_deinit(&heap->fences, pool->memory.cuda);
        heap->hh.next = pool->spare_heaps;
        pool->spare_heaps = heap;
}

void pool_retire_heap(struct pool *pool, struct stream_heap *heap)
{
        HASH_DEL(pool->heaps, heap);
        end_heap(pool, heap);
}

/* Most of these heaps belong to streams that are gone. */
static void retire_blockless(struct pool *pool)
{
        struct stream_heap *heap, *next;

        HASH_ITER(hh, pool->heaps, heap, next)
        {
                if (!heap_in(heap)->n_blocks)
                        pool_retire_heap(pool, heap);
        }
        pool->n_heaps_many = 2 * HASH_COUNT(pool->heaps);
}

static struct stream_heap *new_record(struct pool *pool)
{
        struct stream_heap *heap = pool->spare_heaps;

        if (heap) {
                pool->spare_heaps = heap->hh.next;
                return heap;
        }
        heap = aligned_alloc(_Alignof(struct stream_heap), sizeof(*heap));
        if (!heap)
                return NULL;
        memset(heap, 0, sizeof(*heap));
        heap->pool = pool;
        return heap;
}

/* Is all work over when the memory is freed? So it is for pinned memory, and for memory that was made without a
 * context. */
static bool is_waited_for(const struct pool *pool, const struct stream_key *key)
{
        return pool->memory.kind == GPUMEM_PINNED || !key->context;
}

/* A heap that captures share belongs to one of their streams at a time. */
static void hand_over(struct stream_heap *heap, const struct stream_mark *mark)
{
        if (pool_has_mark(heap, mark))
                return;
        spin_lock(&heap_in(heap)->lock);
        pool_set_mark(heap, mark);
        spin_unlock(&heap_in(heap)->lock);
}

static void begin_heap(struct pool *pool, const struct pool_request *request,
                       struct stream_heap *heap)
{
        heap->key = request->key;
        heap->is_legacy = request->key.context && stream_is_legacy(request->stream);
        pool_set_mark(heap, &request->mark);
        scan_trigger_init(&heap->trigger);
        if (idle_marking_is_on(pool))
                scan_trigger_begin_unbounded(&heap->trigger,
                                             scan_trigger_first_share(&pool->n_first_records),
                                             pool->heap_set.n_heaps);
        else
                scan_trigger_begin_bounded(&heap->trigger);
        if (pool->heaps)
                scan_trigger_note_other(&heap->trigger);
        heap->n_flush_epochs = 0;
        fences_init(&heap->fences);
        heap_set_add(&pool->heap_set, &heap->in_set, pool_runs(pool));
        if (is_waited_for(pool, &request->key))
                heap_in(heap)->n_done_epochs = UINT64_MAX;
        /* No block of a capture counts as idle, not even a new one: its graph may use it at any time. */
        if (pool_is_captured(heap))
                heap_in(heap)->n_done_epochs = 0;
        heap->generation++;
        heap->live = true;
}

/* The existing heaps have one more beside them. */
static void meet_heaps(struct pool *pool)
{
        struct stream_heap *other, *next;

        HASH_ITER(hh, pool->heaps, other, next)
        {
                spin_lock(&heap_in(other)->lock);
                scan_trigger_note_other(&other->trigger);
                spin_unlock(&heap_in(other)->lock);
        }
}

int pool_heap(struct pool *pool, const struct pool_request *request, struct stream_heap **ret_heap)
{
        struct stream_heap *heap;

        HASH_FIND(hh, pool->heaps, &request->key, sizeof(request->key), heap);
        if (!heap) {
                if (HASH_COUNT(pool->heaps) >= HEAPS_MANY &&
                    HASH_COUNT(pool->heaps) >= pool->n_heaps_many)
                        retire_blockless(pool);
                heap = new_record(pool);
                if (!heap)
                        return -ENOMEM;
                meet_heaps(pool);
                spin_lock(&heap_in(heap)->lock);
                begin_heap(pool, request, heap);
                spin_unlock(&heap_in(heap)->lock);
                HASH_ADD(hh, pool->heaps, key, sizeof(heap->key), heap);
                if (!heap->hh.tbl) {
                        end_heap(pool, heap);
                        return -ENOMEM;
                }
        }
        hand_over(heap, &request->mark);
        *ret_heap = heap;
        return 0;
}

struct stream_heap *pool_find_heap(struct pool *pool, const struct pool_request *request)
{
        struct stream_heap *heap;

        pthread_mutex_lock(&pool->lock);
        HASH_FIND(hh, pool->heaps, &request->key, sizeof(request->key), heap);
        if (heap)
                hand_over(heap, &request->mark);
        pthread_mutex_unlock(&pool->lock);
        return heap;
}
