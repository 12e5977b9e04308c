/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/pool.h"

#include <stdlib.h>

#include "base/err.h"
#include "client/blocks/addresses.h"
#include "client/blocks/lease.h"
#include "client/mapping/host_register.h"
#include "client/pool/shared_alloc.h"
#include "client/pool/empty_blocks.h"
#include "gpumem.h"

void pool_init(struct pool *pool, const struct pool_row *row, const struct memory *memory,
               struct reconnector *reconnector, struct service_thread *service,
               struct streams *streams, uint64_t n_cache_bytes)
{
        *pool = (struct pool){.row = *row,
                              .memory = *memory,
                              .reconnector = reconnector,
                              .service = service,
                              .streams = streams,
                              .n_first_records = SCAN_TRIGGER_SMALL_ALL,
                              .limit = CLIENT_LIMIT_NULL};
        peer_access_init(&pool->peer_access);
        counters_init(&pool->counters);
        heap_set_init(&pool->heap_set);
        pool->heap_set.budget.n_empty_max = n_cache_bytes;
        retained_init(&pool->retained);
        LIST_INIT(&pool->spare_leased);
        LIST_INIT(&pool->stuck_leased);
        LIST_INIT(&pool->shareds);
        pthread_mutex_init(&pool->declare_lock, NULL);
        pthread_mutex_init(&pool->lock, NULL);
        pthread_mutex_init(&pool->flushing, NULL);
        pthread_mutex_init(&pool->registering, NULL);
        pthread_mutex_init(&pool->reserving, NULL);
}

static struct stream_heap *stream_heap_of(struct heap *heap)
{
        return CONTAINER_OF(heap, struct stream_heap, in_set.heap);
}

static ALWAYS_INLINE int cut(struct stream_heap *heap, uint64_t n_bytes, enum counter_event event,
                             void **ret_pointer)
{
        struct counter *counter = counters_mine(&heap->pool->counters);
        uint64_t address;
        int r;

        counters_prefetch(counter);
        r = heap_alloc(heap_in(heap), n_bytes, &address);
        if (r)
                return r;
        counters_count(&heap->pool->counters, counter, event, n_bytes, heap_round_up(n_bytes));
        *ret_pointer = (void *)(uintptr_t)address;
        return 0;
}

int pool_cut(struct stream_heap *heap, uint64_t n_bytes, enum counter_event event,
             void **ret_pointer)
{
        return cut(heap, n_bytes, event, ret_pointer);
}

int pool_hit(struct stream_heap *heap, const struct stream_mark *mark, uint64_t n_bytes,
             void **ret_pointer)
{
        int r = GPUMEM_E_REFUSED;

        spin_lock(&heap_in(heap)->lock);
        if (heap->live && pool_has_mark(heap, mark))
                r = cut(heap, n_bytes, COUNTER_HIT, ret_pointer);
        spin_unlock(&heap_in(heap)->lock);
        return r;
}

/* Mostly the context is the request's, which is alive, and the driver is not asked. */
static bool is_registration_over(const struct pool *pool, const struct pool_request *request,
                                 const struct leased *leased)
{
        uint64_t context = leased->context, id = leased->context_id;

        if (!context)
                return false;
        if (context == request->key.context && request->context_id)
                return id && id != request->context_id;
        return host_register_is_over(&pool->memory, context, id);
}

/* Without a current context it stays unregistered, as a new block does. */
int pool_renew_registration(struct pool *pool, const struct pool_request *request,
                            struct stream_heap *heap, const void *pointer)
{
        struct leased *leased = leased_of(arena_find(pool->arena, (uint64_t)(uintptr_t)pointer));
        int r = is_registration_over(pool, request, leased) ? leased_register(pool, leased) : 0;

        if (r && r != GPUMEM_E_NO_CONTEXT) {
                (void)pool_give(heap, pointer, POOL_USE_ORDERED);
                return r;
        }
        return 0;
}

struct heap_block *pool_block_of(const struct pool *pool, const void *pointer)
{
        const struct arena *arena = pool->arena;

        return arena ? heap_block_at(arena, (uint64_t)(uintptr_t)pointer) : NULL;
}

struct stream_heap *pool_heap_of_block(const struct pool *pool, const struct heap_block *block)
{
        struct heap *heap = block->heap;

        /* Nothing is allocated on the idle list. */
        return heap && heap != &pool->heap_set.idle_list.heap ? stream_heap_of(heap) : NULL;
}

struct stream_heap *pool_heap_of(const struct pool *pool, const void *pointer)
{
        const struct heap_block *block = pool_block_of(pool, pointer);

        return block ? pool_heap_of_block(pool, block) : NULL;
}

struct stream_key pool_order_of(const struct stream_heap *heap, const void *pointer)
{
        const struct leased *leased;

        if (heap->key.context)
                return heap->key;
        leased = leased_of(arena_find(heap->pool->arena, (uint64_t)(uintptr_t)pointer));
        if (!leased || !leased->context)
                return heap->key;
        return (struct stream_key){.context = leased->context, .id = POOL_ANY_STREAM};
}

static inline int take_back(struct stream_heap *heap, struct heap_block *block, uint64_t address,
                            enum pool_use use, struct heap_freed *ret_freed)
{
        return use == POOL_USE_OVER ? heap_free_idle(heap_in(heap), address, ret_freed)
                                    : heap_free_in(heap_in(heap), block, address, ret_freed);
}

static ALWAYS_INLINE bool is_time_to_look(struct stream_heap *heap, const struct heap_freed *freed)
{
        bool is_counted = scan_trigger_count_free(&heap->trigger, heap_in(heap));
        bool may_exceed = scan_trigger_may_exceed(&heap->trigger, heap_in(heap), freed);

        return __builtin_expect(is_counted || may_exceed, false);
}

int pool_give_in(struct stream_heap *heap, struct heap_block *block, const void *pointer,
                 enum pool_use use)
{
        uint64_t address = (uint64_t)(uintptr_t)pointer;
        struct heap_freed freed;
        int r;

        spin_lock(&heap_in(heap)->lock);
        r = heap->live ? take_back(heap, block, address, use, &freed) : GPUMEM_E_NOT_OURS;
        if (!r) {
                counters_discount(counters_mine(&heap->pool->counters), freed.n_requested_bytes,
                                  freed.n_allocated_bytes);
                scan_trigger_note_free(&heap->trigger, heap_in(heap), &freed,
                                       use == POOL_USE_OVER ? SCAN_TRIGGER_FREE_OVER
                                                            : SCAN_TRIGGER_FREE_ORDERED);
                if (is_time_to_look(heap, &freed))
                        r = POOL_LOOK;
        }
        spin_unlock(&heap_in(heap)->lock);
        return r;
}

int pool_give(struct stream_heap *heap, const void *pointer, enum pool_use use)
{
        return pool_give_in(heap, pool_block_of(heap->pool, pointer), pointer, use);
}

static int find_allocation(struct pool *pool, const void *pointer,
                           struct heap_allocation *ret_allocation)
{
        struct stream_heap *heap = pool_heap_of(pool, pointer);
        int r = GPUMEM_E_NOT_OURS;

        if (!heap)
                return r;
        spin_lock(&heap_in(heap)->lock);
        if (heap->live)
                r = heap_find(heap_in(heap), (uint64_t)(uintptr_t)pointer, ret_allocation);
        spin_unlock(&heap_in(heap)->lock);
        return r;
}

int pool_find(struct pool *pool, const void *pointer)
{
        struct heap_allocation allocation;
        int r = find_allocation(pool, pointer, &allocation);

        return !r && allocation.start != (uint64_t)(uintptr_t)pointer ? GPUMEM_E_NOT_OURS : r;
}

int pool_describe(struct pool *pool, const void *pointer, struct gpumem_info *ret_info)
{
        struct heap_allocation allocation;
        int r;

        pthread_mutex_lock(&pool->lock);
        r = find_allocation(pool, pointer, &allocation);
        if (!r) {
                leased_describe(pool,
                                leased_of(arena_find(pool->arena, (uint64_t)(uintptr_t)pointer)),
                                ret_info);
                ret_info->base = (void *)(uintptr_t)allocation.start;
                ret_info->n_requested_bytes = allocation.n_requested_bytes;
                ret_info->n_allocated_bytes = allocation.n_allocated_bytes;
        }
        pthread_mutex_unlock(&pool->lock);
        return r;
}

void pool_reset_peaks(struct pool *pool)
{
        pthread_mutex_lock(&pool->lock);
        counters_reset_peaks(&pool->counters);
        pool->n_reserved_peak_bytes = pool->n_reserved_bytes;
        pthread_mutex_unlock(&pool->lock);
}

/* Returns all blocks of a heap, whether or not they have allocations. */
static void return_heap(struct pool *pool, struct stream_heap *heap)
{
        struct heap_block *block;

        while ((block = heap_abandon_block(heap_in(heap))))
                leased_free(pool, CONTAINER_OF(block, struct leased, block));
        pool_retire_heap(pool, heap);
}

static void return_idle_list(struct pool *pool)
{
        struct leased_list list = LIST_HEAD_INITIALIZER(list);

        if (!pool->heap_set.arena)
                return;
        pthread_mutex_lock(&pool->lock);
        empty_blocks_take_all(pool, &list);
        pthread_mutex_unlock(&pool->lock);
        leased_free_all(pool, &list);
        heap_set_close(&pool->heap_set);
}

static void free_leased(struct leased_list *list)
{
        struct leased *leased;

        while ((leased = LIST_FIRST(list))) {
                LIST_REMOVE(leased, link);
                free(leased);
        }
}

static void free_records(struct pool *pool)
{
        struct stream_heap *heap;

        while ((heap = pool->spare_heaps)) {
                pool->spare_heaps = heap->hh.next;
                free(heap);
        }
        free_leased(&pool->spare_leased);
        free_leased(&pool->stuck_leased);
}

static void end_pledge(struct pool *pool)
{
        pthread_mutex_lock(&pool->lock);
        heap_set_end_pledge(&pool->heap_set);
        pthread_mutex_unlock(&pool->lock);
}

void pool_deinit(struct pool *pool)
{
        struct stream_heap *heap, *next;

        end_pledge(pool);
        HASH_ITER(hh, pool->heaps, heap, next)
        {
                return_heap(pool, heap);
        }
        shared_alloc_return_all(pool);
        return_idle_list(pool);
        leased_free_stuck(pool);
        addresses_close(pool);
        free_records(pool);
        counters_deinit(&pool->counters);
        peer_access_deinit(&pool->peer_access);
        pthread_mutex_destroy(&pool->reserving);
        pthread_mutex_destroy(&pool->registering);
        pthread_mutex_destroy(&pool->flushing);
        pthread_mutex_destroy(&pool->lock);
        pthread_mutex_destroy(&pool->declare_lock);
}
