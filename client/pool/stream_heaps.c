/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/stream_heaps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/blocks/ipc_mapping.h"
#include "client/blocks/retained.h"
#include "client/mapping/host_register.h"
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
        heap_in(heap)->context_id = pool->memory.is_ipc ? request->context_id : 0;
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

/* A default stream has the same key and mark in the next context that has the handle. */
static bool is_of_context(const struct stream_heap *heap, const struct pool_request *request)
{
        uint64_t context_id = heap->in_set.heap.context_id;

        return !context_id || context_id == request->context_id;
}

struct stream_heap *pool_find_heap(struct pool *pool, const struct pool_request *request)
{
        struct stream_heap *heap;

        pthread_mutex_lock(&pool->lock);
        HASH_FIND(hh, pool->heaps, &request->key, sizeof(request->key), heap);
        if (heap && !is_of_context(heap, request))
                heap = NULL;
        if (heap)
                hand_over(heap, &request->mark);
        pthread_mutex_unlock(&pool->lock);
        return heap;
}

static void take(struct pool *pool, struct heap_block *block, struct leased_list *list)
{
        heap_set_forget(&pool->heap_set, block->at.n_bytes);
        pool_discount_block(pool, block->at.n_bytes);
        LIST_INSERT_HEAD(list, CONTAINER_OF(block, struct leased, block), link);
}

static bool is_any_used(struct heap *heap)
{
        bool used = false;

        spin_lock(&heap->lock);
        for (uint32_t i = 0; i < heap->n_blocks; i++)
                used = used || atomic_load(&heap->blocks[i]->n_uses);
        spin_unlock(&heap->lock);
        return used;
}

static bool is_apart(const struct stream_heap *heap)
{
        return heap->key.capture == UINT64_MAX;
}

/* No request finds it there, and no other heap takes its blocks: it is as a capture's. False: there is no memory for that,
 * and it is nowhere. */
static bool set_apart(struct pool *pool, struct stream_heap *heap)
{
        HASH_DEL(pool->heaps, heap);
        heap->key.id = (uint64_t)(uintptr_t)heap;
        heap->key.capture = UINT64_MAX;
        spin_lock(&heap_in(heap)->lock);
        heap_in(heap)->n_done_epochs = heap_in(heap)->n_settled_epochs = 0;
        pool_set_mark(heap, &stream_mark_none);
        spin_unlock(&heap_in(heap)->lock);
        HASH_ADD(hh, pool->heaps, key, sizeof(heap->key), heap);
        return heap->hh.tbl;
}

/* A later free finds none of its allocations. */
static void empty(struct pool *pool, struct stream_heap *heap, struct leased_list *list)
{
        struct heap_block *block;

        spin_lock(&heap_in(heap)->lock);
        counters_discount(counters_mine(&pool->counters), heap_in(heap)->n_requested_bytes,
                          atomic_load(&heap_in(heap)->n_allocated_bytes));
        while ((block = heap_abandon_block(heap_in(heap))))
                take(pool, block, list);
        heap->live = false;
        spin_unlock(&heap_in(heap)->lock);
}

/* A deferred free must not end what is allocated at its address later. A heap that is put into the table again comes to its
 * end, where a walk meets it once more. */
static void end_ended(struct pool *pool, struct stream_heap *heap, struct leased_list *list)
{
        if (!is_any_used(heap_in(heap)))
                HASH_DEL(pool->heaps, heap);
        else if (is_apart(heap))
                return;
        else if (set_apart(pool, heap))
                return;
        empty(pool, heap, list);
        end_heap(pool, heap);
}

static struct heap_block *find_ended(const struct pool *pool)
{
        const struct heap *idle_list = &pool->heap_set.idle_list.heap;

        for (uint32_t i = 0; i < idle_list->n_blocks; i++) {
                struct heap_block *block = idle_list->blocks[i];

                if (ipc_mapping_is_over(pool, CONTAINER_OF(block, struct leased, block)))
                        return block;
        }
        return NULL;
}

/* What the daemon has revoked meanwhile is retained. */
static void take_idle_ended(struct pool *pool, struct leased_list *list)
{
        struct heap_block *block;
        int r = 0;

        while (r >= 0 && (block = find_ended(pool))) {
                r = idle_list_take(&pool->heap_set.idle_list, block);
                if (!r)
                        take(pool, block, list);
        }
}

void pool_take_ended(struct pool *pool, struct leased_list *list)
{
        struct stream_heap *heap, *next;

        if (!pool->memory.is_ipc || !pool->heap_set.arena)
                return;
        HASH_ITER(hh, pool->heaps, heap, next)
        {
                if (host_register_is_over(&pool->memory, heap->key.context,
                                          heap_in(heap)->context_id))
                        end_ended(pool, heap, list);
        }
        take_idle_ended(pool, list);
        retained_take_ended(pool, list);
}
