/* SPDX-License-Identifier: Apache-2.0 */
#include "client/heap/heap.h"

/* Wrong bookkeeping would allocate the same bytes twice, so these asserts stay in every build. */
#undef NDEBUG
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "client/heap/free_index.h"
#include "client/heap/heap_blocks.h"
#include "client/heap/heap_slabs.h"
#include "gpumem.h"

static_assert(offsetof(struct heap, lock) == 0, "heap_init passes it over");

void heap_init(struct heap *heap, const struct arena *arena, enum heap_runs runs)
{
        /* Without the lock, which other threads may read. */
        memset((char *)heap + sizeof(heap->lock), 0, sizeof(*heap) - sizeof(heap->lock));
        extents_init(&heap->extents);
        heap->arena = arena;
        heap->base = arena_start(arena);
        heap->runs = runs;
        heap->epoch = heap->n_done_epochs = 1;
}

void heap_deinit(struct heap *heap)
{
        while (heap_abandon_block(heap))
                ;
        free(heap->blocks);
        heap->blocks = NULL;
        heap->n_block_room = 0;
        slabs_deinit(&heap->slabs);
        alloc_table_deinit(&heap->alloc_table);
        extents_deinit(&heap->extents);
}

static void count_allocated(struct heap *heap, uint64_t n_more_bytes)
{
        uint64_t n_bytes = atomic_load_explicit(&heap->n_allocated_bytes, memory_order_relaxed);

        atomic_store_explicit(&heap->n_allocated_bytes, n_bytes + n_more_bytes,
                              memory_order_relaxed);
}

/* The first unit of a new extent. As heap_alloc. */
static ALWAYS_INLINE int cut(struct heap *heap, uint32_t n_units, uint32_t n_slack,
                             uint32_t *ret_unit)
{
        uint32_t free_extent = extents_find_free(&heap->extents, n_units), taken;
        struct extent *extent;
        int r;

        if (!free_extent)
                return GPUMEM_E_REFUSED;
        r = extents_reserve(&heap->extents, 1);
        if (!r)
                r = alloc_table_reserve(&heap->alloc_table);
        if (r)
                return r;
        taken = extents_take(&heap->extents, free_extent, n_units);
        extent = extents_at(&heap->extents, taken);
        extent->n_slack = n_slack;
        alloc_table_add(&heap->alloc_table, extent->start, taken);
        *ret_unit = extent->start;
        return 0;
}

/* A small allocation is an extent as others are, if a slab is not worth it or has no room. */
static NOINLINE int cut_small(struct heap *heap, uint32_t n_units, uint32_t n_slack,
                              uint32_t *ret_unit)
{
        int r;

        if (heap->slabs.n_live[n_units] >= SLAB_FROM && heap_add_slab(heap, n_units)) {
                *ret_unit = slabs_take(&heap->slabs, n_units, n_slack);
                return 0;
        }
        r = cut(heap, n_units, n_slack, ret_unit);
        if (!r)
                heap->slabs.n_live[n_units]++;
        return r;
}

static ALWAYS_INLINE int find_room(struct heap *heap, uint32_t n_units, uint32_t n_slack,
                                   uint32_t *ret_unit)
{
        if (n_units > SLAB_UNITS_MAX)
                return cut(heap, n_units, n_slack, ret_unit);
        if (!slabs_have(&heap->slabs, n_units))
                return cut_small(heap, n_units, n_slack, ret_unit);
        *ret_unit = slabs_take(&heap->slabs, n_units, n_slack);
        return 0;
}

int heap_alloc(struct heap *heap, uint64_t n_bytes, uint64_t *ret_address)
{
        uint32_t n_units, unit;
        int r;

        if (n_bytes == 0)
                return GPUMEM_E_BAD_REQUEST;
        if (n_bytes > (UINT32_MAX - HEAP_BLOCK_UNIT / HEAP_UNIT) * HEAP_UNIT)
                return GPUMEM_E_TOO_LARGE;
        n_units = (uint32_t)((n_bytes + HEAP_UNIT - 1) / HEAP_UNIT);
        r = find_room(heap, n_units, (uint32_t)(-n_bytes % HEAP_UNIT), &unit);
        if (r)
                return r;
        heap->n_requested_bytes += n_bytes;
        count_allocated(heap, n_units * HEAP_UNIT);
        *ret_address = heap_address_of(heap, unit);
        return 0;
}

void heap_prefetch_alloc(const struct heap *heap, uint64_t n_bytes)
{
        heap_prefetch(heap);
        free_index_prefetch(&heap->extents, (uint32_t)(heap_round_up(n_bytes) / HEAP_UNIT));
}

/* Notes the epoch in each block of the allocation; most have one block, whose record is at hand. The records of the
 * others are found in a loop of their own, so that the processor can fetch them in parallel. */
static ALWAYS_INLINE void date(const struct heap *heap, struct heap_block *first, uint64_t address,
                               uint64_t n_bytes)
{
        struct heap_block *const *block;

        first->epoch = heap->epoch;
        if (heap_block_end(first) >= address + n_bytes)
                return;
        block = &heap->blocks[first->place];
        while (heap_block_end(*block) < address + n_bytes)
                (*++block)->epoch = heap->epoch;
}

/* Removes the table's entry for the address. Returns its extent, or 0: no allocation starts there. */
static ALWAYS_INLINE uint32_t find_given(struct heap *heap, uint64_t address,
                                         struct heap_freed *ret_freed)
{
        uint32_t index = alloc_table_remove(&heap->alloc_table, heap_unit_of(heap, address));
        const struct extent *extent = extents_at(&heap->extents, index);

        if (!index)
                return 0;
        if (extent->n_units <= SLAB_UNITS_MAX)
                heap->slabs.n_live[extent->n_units]--;
        ret_freed->n_allocated_bytes = extent->n_units * HEAP_UNIT;
        ret_freed->n_requested_bytes = ret_freed->n_allocated_bytes - extent->n_slack;
        return index;
}

/* Ends an allocation in a slab; false: none starts there. */
static ALWAYS_INLINE bool give_place(struct heap *heap, uint32_t slab, uint64_t address,
                                     struct heap_freed *ret_freed)
{
        uint32_t n_slack;

        if (!slabs_give(&heap->slabs, slab, heap_unit_of(heap, address), &n_slack))
                return false;
        ret_freed->n_allocated_bytes = slabs_at(&heap->slabs, slab)->n_units * HEAP_UNIT;
        ret_freed->n_requested_bytes = ret_freed->n_allocated_bytes - n_slack;
        ret_freed->n_extent_bytes = 0;
        return true;
}

static uint64_t free_bytes(const struct heap *heap, uint32_t free_extent)
{
        return extents_at(&heap->extents, free_extent)->n_units * HEAP_UNIT;
}

static ALWAYS_INLINE void count_freed(struct heap *heap, const struct heap_freed *freed)
{
        count_allocated(heap, -freed->n_allocated_bytes);
        heap->n_requested_bytes -= freed->n_requested_bytes;
}

static ALWAYS_INLINE void note_use(struct heap *heap, struct heap_block *block, uint64_t address,
                                   const struct heap_freed *freed)
{
        date(heap, block, address, freed->n_allocated_bytes);
        heap->n_freed_bytes += freed->n_allocated_bytes;
}

/* Blocks are dated before the hole is made: their records come from memory while the hole is made, which does not
 * need them. */
static ALWAYS_INLINE int end(struct heap *heap, struct heap_block *block, uint64_t address,
                             bool is_idle, struct heap_freed *ret_freed)
{
        struct heap_freed freed;
        uint32_t slab, index = 0;

        if (!block || block->heap != heap || address - block->at.start >= block->at.n_bytes ||
            address % HEAP_UNIT)
                return GPUMEM_E_NOT_OURS;
        slab = heap_slab_at(heap, block, address);
        if (slab ? !give_place(heap, slab, address, &freed)
                 : !(index = find_given(heap, address, &freed)))
                return GPUMEM_E_NOT_OURS;
        if (!is_idle)
                note_use(heap, block, address, &freed);
        if (index)
                freed.n_extent_bytes = free_bytes(heap, extents_give(&heap->extents, index));
        else if (slab_is_empty(slabs_at(&heap->slabs, slab)))
                freed.n_extent_bytes = free_bytes(heap, heap_end_slab(heap, slab));
        count_freed(heap, &freed);
        *ret_freed = freed;
        return 0;
}

int heap_free(struct heap *heap, uint64_t address, struct heap_freed *ret_freed)
{
        return end(heap, heap_block_at(heap->arena, address), address, false, ret_freed);
}

int heap_free_in(struct heap *heap, struct heap_block *block, uint64_t address,
                 struct heap_freed *ret_freed)
{
        return end(heap, block, address, false, ret_freed);
}

int heap_free_idle(struct heap *heap, uint64_t address, struct heap_freed *ret_freed)
{
        return end(heap, heap_block_at(heap->arena, address), address, true, ret_freed);
}

uint64_t heap_new_epoch(struct heap *heap)
{
        heap->n_freed_bytes = 0;
        return heap->epoch++;
}

/* The extent at an address of that block. */
static uint32_t extent_at(const struct heap *heap, const struct heap_block *block, uint64_t address)
{
        uint32_t unit = heap_unit_of(heap, address);
        uint32_t index = heap_first_edge(heap, block);
        const struct extent *extent = extents_at(&heap->extents, index);

        while (!extent->n_units || unit - extent->start >= extent->n_units) {
                index = extent->after;
                extent = extents_at(&heap->extents, index);
        }
        return index;
}

static struct heap_allocation describe(const struct heap *heap, uint32_t start, uint32_t n_units,
                                       uint32_t n_slack)
{
        return (struct heap_allocation){.start = heap_address_of(heap, start),
                                        .n_requested_bytes = n_units * HEAP_UNIT - n_slack,
                                        .n_allocated_bytes = n_units * HEAP_UNIT};
}

static int find_place(const struct heap *heap, uint32_t index, uint64_t address,
                      struct heap_allocation *ret_allocation)
{
        const struct slab *slab = slabs_at(&heap->slabs, index);
        unsigned place = slab_place_of(slab, heap_unit_of(heap, address));

        if (slab_is_free(slab, place))
                return GPUMEM_E_NOT_OURS;
        *ret_allocation = describe(heap, slab_unit_of(slab, place), slab->n_units,
                                   slabs_slack(&heap->slabs, index, place));
        return 0;
}

int heap_find(const struct heap *heap, uint64_t address, struct heap_allocation *ret_allocation)
{
        const struct heap_block *block = heap_block_at(heap->arena, address);
        const struct extent *extent;
        uint32_t slab, index = 0;

        if (!block || block->heap != heap)
                return GPUMEM_E_NOT_OURS;
        slab = heap_slab_at(heap, block, address);
        if (slab)
                return find_place(heap, slab, address, ret_allocation);
        if (address % HEAP_UNIT == 0)
                index = alloc_table_find(&heap->alloc_table, heap_unit_of(heap, address));
        if (!index)
                index = extent_at(heap, block, address);
        extent = extents_at(&heap->extents, index);
        if (extent->state != EXTENT_TAKEN)
                return GPUMEM_E_NOT_OURS;
        *ret_allocation = describe(heap, extent->start, extent->n_units, extent->n_slack);
        return 0;
}
