#include "client/pool.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/table.h"
#include "client/blocks.h"
#include "client/heap.h"
#include "client/shared.h"
#include "gpumem.h"

struct stream_heap {
        struct stream_key key;
        struct heap heap;
        UT_hash_handle hh;
};

void pool_init(struct pool *pool, const struct pool_row *row, const struct memory *memory,
               struct uplink *uplink)
{
        *pool = (struct pool){
                .row = *row, .memory = *memory, .uplink = uplink, .limit = OWN_LIMIT_NULL};
        pool->counters = &pool->own_counters;
        LIST_INIT(&pool->shareds);
        pthread_mutex_init(&pool->declare_lock, NULL);
        pthread_mutex_init(&pool->lock, NULL);
        pthread_mutex_init(&pool->registering, NULL);
}

int32_t pool_place(const struct pool *pool)
{
        return pool->memory.kind == GPUMEM_DEVICE ? pool->memory.ordinal : (int32_t)pool->row.place;
}

static struct stream_heap *find_heap(struct pool *pool, const struct stream_key *key)
{
        struct stream_heap *found;

        HASH_FIND(hh, pool->heaps, key, sizeof(*key), found);
        return found;
}

static int find_or_make_heap(struct pool *pool, const struct stream_key *key,
                             struct stream_heap **ret_heap)
{
        struct stream_heap *heap = find_heap(pool, key);

        if (!heap) {
                heap = calloc(1, sizeof(*heap));
                if (!heap)
                        return -ENOMEM;
                heap->key = *key;
                HASH_ADD(hh, pool->heaps, key, sizeof(heap->key), heap);
                if (!heap->hh.tbl) {
                        free(heap);
                        return -ENOMEM;
                }
                heap_init(&heap->heap);
        }
        *ret_heap = heap;
        return 0;
}

static void drop_heap(struct pool *pool, struct stream_heap *heap)
{
        HASH_DEL(pool->heaps, heap);
        heap_deinit(&heap->heap);
        free(heap);
}

/* A peak only this side writes: no other store comes between. */
static void raise_peak(_Atomic uint64_t *peak, uint64_t value)
{
        if (value > atomic_load_explicit(peak, memory_order_relaxed))
                atomic_store_explicit(peak, value, memory_order_relaxed);
}

/* Empty blocks are on their way back: what is not allocated is holes of blocks in use. */
static void publish(struct pool *pool, uint64_t n_requested, uint64_t n_allocated)
{
        struct board_counters *counters = pool->counters;

        atomic_store_explicit(&counters->requested, n_requested, memory_order_relaxed);
        atomic_store_explicit(&counters->allocated, n_allocated, memory_order_relaxed);
        atomic_store_explicit(&counters->active, n_allocated, memory_order_relaxed);
        atomic_store_explicit(&counters->inactive_split, pool->n_reserved_bytes - n_allocated,
                              memory_order_relaxed);
        raise_peak(&counters->requested_peak, n_requested);
        raise_peak(&counters->allocated_peak, n_allocated);
}

static void count_alloc(struct pool *pool, uint64_t n_requested, uint64_t n_allocated,
                        _Atomic uint64_t *hits_or_misses)
{
        struct board_counters *counters = pool->counters;

        publish(pool, atomic_load(&counters->requested) + n_requested,
                atomic_load(&counters->allocated) + n_allocated);
        atomic_fetch_add_explicit(hits_or_misses, 1, memory_order_relaxed);
}

/* What it asked for, in the heap's unit. */
static uint64_t rounded(uint64_t n_bytes)
{
        return (n_bytes + HEAP_UNIT - 1) & ~(HEAP_UNIT - 1);
}

static void raise_reserved(struct pool *pool, uint64_t n_bytes)
{
        pool->n_blocks++;
        pool->n_reserved_bytes += n_bytes;
        if (pool->n_reserved_bytes > pool->n_reserved_peak_bytes)
                pool->n_reserved_peak_bytes = pool->n_reserved_bytes;
}

void pool_count_come(struct pool *pool, uint64_t n_requested_bytes, uint64_t n_block_bytes)
{
        raise_reserved(pool, n_block_bytes);
        count_alloc(pool, n_requested_bytes, rounded(n_requested_bytes), &pool->counters->misses);
}

void pool_count_gone(struct pool *pool, uint64_t n_requested_bytes, uint64_t n_block_bytes)
{
        pool->n_blocks--;
        pool->n_reserved_bytes -= n_block_bytes;
        publish(pool, atomic_load(&pool->counters->requested) - n_requested_bytes,
                atomic_load(&pool->counters->allocated) - rounded(n_requested_bytes));
}

/* Cuts from a hole that is there. GPUMEM_E_REFUSED: there is none. */
static int cut(struct pool *pool, struct stream_heap *heap, uint64_t n_bytes,
               _Atomic uint64_t *hits_or_misses, void **ret_pointer)
{
        struct leased *leased;
        uint64_t address;
        int r;

        r = heap_alloc(&heap->heap, n_bytes, &address);
        if (r)
                return r;
        leased = arena_find(pool->arena, address);
        leased->n_uses++;
        count_alloc(pool, n_bytes, rounded(n_bytes), hits_or_misses);
        *ret_pointer = (void *)(uintptr_t)address;
        return 0;
}

/* A hit, or GPUMEM_E_REFUSED with the size of the block to lease. */
static int try_hit(struct pool *pool, const struct stream_key *key, uint64_t n_bytes,
                   uint64_t *ret_block_bytes, void **ret_pointer)
{
        struct heap nothing;
        struct stream_heap *heap;
        int r = GPUMEM_E_REFUSED, r_size;

        pthread_mutex_lock(&pool->lock);
        heap = find_heap(pool, key);
        if (heap)
                r = cut(pool, heap, n_bytes, &pool->counters->hits, ret_pointer);
        if (r == GPUMEM_E_REFUSED) {
                heap_init(&nothing);
                r_size = heap_block_bytes(heap ? &heap->heap : &nothing, n_bytes, ret_block_bytes);
                if (r_size)
                        r = r_size;
        }
        pthread_mutex_unlock(&pool->lock);
        return r;
}

static void note_pressure(struct pool *pool, uint64_t n_bytes)
{
        struct gpumem_event event = {.kind = GPUMEM_EVENT_PRESSURE,
                                     .memory = pool->memory.kind,
                                     .place = pool_place(pool),
                                     .n_bytes = n_bytes};

        events_note(pool->uplink->events, &event);
}

/* A larger block than the request needs is worth having but not worth waiting for. */
static int lease(struct pool *pool, uint64_t n_bytes, uint64_t n_block_bytes, uint32_t wait_ms,
                 struct leased **ret_leased)
{
        uint64_t n_least;
        int r;

        r = size_round_up(n_bytes, HEAP_BLOCK_UNIT, &n_least);
        if (r)
                return r;
        if (n_block_bytes > n_least) {
                r = leased_new(pool, n_block_bytes, 0, ret_leased);
                if (r != GPUMEM_E_REFUSED && r != GPUMEM_E_LIMIT && r != GPUMEM_E_TOO_LARGE &&
                    r != GPUMEM_E_DEVICE_FULL)
                        return r;
                note_pressure(pool, n_block_bytes);
        }
        return leased_new(pool, n_least, wait_ms, ret_leased);
}

/* The block leaves its heap, and the heap goes with its last one. */
static void detach(struct pool *pool, struct leased *leased)
{
        struct stream_heap *heap = leased->heap;

        heap_remove_block(&heap->heap, heap_block_at(&heap->heap, leased->address));
        if (!heap->heap.n_blocks)
                drop_heap(pool, heap);
        leased->heap = NULL;
        pool->n_blocks--;
        pool->n_reserved_bytes -= leased->n_bytes;
}

static int attach(struct pool *pool, const struct stream_key *key, struct leased *leased)
{
        struct stream_heap *heap;
        int r;

        r = find_or_make_heap(pool, key, &heap);
        if (r)
                return r;
        r = heap_add_block(&heap->heap, leased->address, leased->n_bytes, leased);
        if (r) {
                if (!heap->heap.n_blocks)
                        drop_heap(pool, heap);
                return r;
        }
        leased->heap = heap;
        raise_reserved(pool, leased->n_bytes);
        return 0;
}

/* The new block goes to the stream's heap, and the allocation out of the heap, in one step: nobody
 * else can have the hole. Another thread may have made a better one meanwhile; then the block was
 * leased for nothing and stays the caller's. */
static int install(struct pool *pool, const struct stream_key *key, struct leased **take_leased,
                   uint64_t n_bytes, void **ret_pointer)
{
        struct leased *leased = *take_leased;
        int r;

        pthread_mutex_lock(&pool->lock);
        r = attach(pool, key, leased);
        if (!r) {
                r = cut(pool, leased->heap, n_bytes, &pool->counters->misses, ret_pointer);
                if (leased->n_uses)
                        *take_leased = NULL;
                else
                        detach(pool, leased);
        }
        pthread_mutex_unlock(&pool->lock);
        return err_fold(r);
}

int pool_alloc(struct pool *pool, const struct stream_key *key, uint64_t n_bytes, uint32_t wait_ms,
               void **ret_pointer)
{
        uint64_t n_block_bytes;
        struct leased *leased;
        int r;

        r = try_hit(pool, key, n_bytes, &n_block_bytes, ret_pointer);
        if (r != GPUMEM_E_REFUSED)
                return r;
        r = lease(pool, n_bytes, n_block_bytes, wait_ms, &leased);
        if (r)
                return r;
        r = install(pool, key, &leased, n_bytes, ret_pointer);
        if (leased)
                leased_free(pool, leased);
        return r;
}

/* The block that a pointer is in; the caller has the lock. */
static struct leased *block_of(const struct pool *pool, const void *pointer)
{
        struct leased *leased = NULL;

        if (pool->arena)
                leased = arena_find(pool->arena, (uint64_t)(uintptr_t)pointer);
        return leased && leased->heap ? leased : NULL;
}

static struct stream_key order_of(const struct leased *leased)
{
        if (leased->heap->key.context || !leased->context)
                return leased->heap->key;
        return (struct stream_key){.context = leased->context, .id = POOL_ANY_STREAM};
}

void pool_reset_peaks(struct pool *pool)
{
        struct board_counters *counters;

        pthread_mutex_lock(&pool->lock);
        counters = pool->counters;
        atomic_store(&counters->requested_peak, atomic_load(&counters->requested));
        atomic_store(&counters->allocated_peak, atomic_load(&counters->allocated));
        pool->n_reserved_peak_bytes = pool->n_reserved_bytes;
        pthread_mutex_unlock(&pool->lock);
}

int pool_describe(struct pool *pool, const void *pointer, struct gpumem_info *ret_info)
{
        struct heap_allocation allocation;
        const struct leased *leased;
        int r = GPUMEM_E_NOT_OURS;

        pthread_mutex_lock(&pool->lock);
        leased = block_of(pool, pointer);
        if (leased)
                r = heap_find(&leased->heap->heap, (uint64_t)(uintptr_t)pointer, &allocation);
        if (!r) {
                leased_describe(pool, leased, ret_info);
                ret_info->base = (void *)(uintptr_t)allocation.start;
                ret_info->n_requested_bytes = allocation.n_requested_bytes;
                ret_info->n_allocated_bytes = allocation.n_allocated_bytes;
        }
        pthread_mutex_unlock(&pool->lock);
        return r;
}

int pool_find(struct pool *pool, const void *pointer, struct stream_key *ret_key)
{
        struct heap_allocation allocation;
        struct leased *leased;
        int r = GPUMEM_E_NOT_OURS;

        pthread_mutex_lock(&pool->lock);
        leased = block_of(pool, pointer);
        if (leased)
                r = heap_find(&leased->heap->heap, (uint64_t)(uintptr_t)pointer, &allocation);
        if (!r && allocation.start != (uint64_t)(uintptr_t)pointer)
                r = GPUMEM_E_NOT_OURS;
        if (!r)
                *ret_key = order_of(leased);
        pthread_mutex_unlock(&pool->lock);
        return r;
}

int pool_free(struct pool *pool, const void *pointer, struct emptied *ret_emptied)
{
        struct emptied emptied = {.address = 0};
        struct heap_freed freed;
        struct leased *leased;
        int r = GPUMEM_E_NOT_OURS;

        pthread_mutex_lock(&pool->lock);
        leased = block_of(pool, pointer);
        if (leased)
                r = heap_free(&leased->heap->heap, (uint64_t)(uintptr_t)pointer, &freed);
        if (!r) {
                publish(pool, atomic_load(&pool->counters->requested) - freed.n_requested_bytes,
                        atomic_load(&pool->counters->allocated) - freed.n_allocated_bytes);
                if (freed.emptied_owner)
                        emptied = (struct emptied){leased->address, leased->lease, leased->n_uses};
                *ret_emptied = emptied;
        }
        pthread_mutex_unlock(&pool->lock);
        return r;
}

/* Another thread may have cut from the block since, freed again, or even retired it: the lease and
 * the count of uses tell. Whoever emptied it last gives it back. */
void pool_retire(struct pool *pool, const struct emptied *emptied)
{
        struct leased *leased;

        pthread_mutex_lock(&pool->lock);
        leased = block_of(pool, (const void *)(uintptr_t)emptied->address);
        if (leased && (leased->lease != emptied->lease || leased->n_uses != emptied->n_uses))
                leased = NULL;
        if (leased)
                detach(pool, leased);
        pthread_mutex_unlock(&pool->lock);
        if (leased)
                leased_free(pool, leased);
}

/* Takes a heap's blocks away from it, allocations in them or not. */
static void return_heap(struct pool *pool, struct stream_heap *heap)
{
        struct heap_block *block;

        for (block = heap_next_block(&heap->heap, NULL); block;
             block = heap_next_block(&heap->heap, block))
                leased_free(pool, block->owner);
        drop_heap(pool, heap);
}

void pool_deinit(struct pool *pool)
{
        struct stream_heap *heap, *next;

        HASH_ITER(hh, pool->heaps, heap, next)
        {
                return_heap(pool, heap);
        }
        shared_return_all(pool);
        if (pool->arena) {
                pool->arena = arena_free(pool->arena);
                memory_unreserve(&pool->memory, pool->arena_start, pool->n_arena_bytes);
        }
        pthread_mutex_destroy(&pool->registering);
        pthread_mutex_destroy(&pool->lock);
        pthread_mutex_destroy(&pool->declare_lock);
}
