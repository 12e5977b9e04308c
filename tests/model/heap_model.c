/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/model/heap_model.h"

#include <string.h>

void model_init(struct model *model, enum heap_runs runs)
{
        memset(model, 0, sizeof(*model));
        model->runs = runs;
        model->random = test_random_begin();
        MODEL_EXPECT(model, arena_new(MODEL_START, MODEL_N_GRANULES * HEAP_BLOCK_UNIT,
                                      &model->arena) == 0);
        heap_set_init(&model->heap_set);
        heap_set_open(&model->heap_set, model->arena, runs);
        for (unsigned i = 0; i < MODEL_N_HEAPS; i++) {
                heap_set_add(&model->heap_set, &model->heaps[i].in_set, runs);
                model->heaps[i].epoch = model->heaps[i].n_done_epochs = 1;
        }
        for (unsigned i = 0; i < MODEL_N_RECORDS; i++)
                model->unused[model->n_unused++] = &model->records[i];
}

void model_deinit(struct model *model)
{
        for (unsigned i = 0; i < MODEL_N_HEAPS; i++)
                heap_set_remove(&model->heap_set, &model->heaps[i].in_set);
        heap_set_close(&model->heap_set);
        model->arena = arena_free(model->arena);
}

static unsigned insert(struct model *model, struct model_ranges *ranges, struct model_range range)
{
        unsigned i = ranges->n++;

        MODEL_EXPECT(model, i < MODEL_N_RANGES);
        for (; i > 0 && ranges->at[i - 1].start > range.start; i--)
                ranges->at[i] = ranges->at[i - 1];
        ranges->at[i] = range;
        return i;
}

static void take_out(struct model_ranges *ranges, unsigned index)
{
        ranges->n--;
        memmove(&ranges->at[index], &ranges->at[index + 1],
                (ranges->n - index) * sizeof(ranges->at[0]));
}

void model_insert(struct model *model, struct model_ranges *ranges, struct model_range range)
{
        (void)insert(model, ranges, range);
}

static unsigned index_of(const struct model_ranges *ranges, const struct model_range *range)
{
        return (unsigned)(range - ranges->at);
}

const struct model_range *model_find(const struct model_ranges *ranges, uint64_t address)
{
        for (unsigned i = 0; i < ranges->n; i++) {
                if (address >= ranges->at[i].start && address < ranges->at[i].end)
                        return &ranges->at[i];
        }
        return NULL;
}

void model_erase(struct model *model, struct model_ranges *ranges, uint64_t start)
{
        const struct model_range *range = model_find(ranges, start);

        MODEL_EXPECT(model, range && range->start == start);
        take_out(ranges, index_of(ranges, range));
}

uint64_t model_sum(const struct model_ranges *ranges)
{
        uint64_t n_bytes = 0;

        for (unsigned i = 0; i < ranges->n; i++)
                n_bytes += model_bytes(&ranges->at[i]);
        return n_bytes;
}

const struct model_range *model_covering(const struct model_heap *heap,
                                         const struct model_range *range)
{
        const struct model_range *free_extent = model_find(&heap->extents, range->start);

        return free_extent && free_extent->end >= range->end ? free_extent : NULL;
}

const struct model_range *model_first_covered(const struct model_heap *heap,
                                              const struct model_range *free_extent)
{
        for (unsigned i = 0; i < heap->blocks.n; i++) {
                const struct model_range *block = &heap->blocks.at[i];

                if (block->start >= free_extent->start && block->end <= free_extent->end)
                        return block;
        }
        return NULL;
}

static bool is_any_in(const struct model_ranges *blocks, uint64_t start, uint64_t n_bytes)
{
        for (unsigned i = 0; i < blocks->n; i++) {
                if (start < blocks->at[i].end && blocks->at[i].start < start + n_bytes)
                        return true;
        }
        return false;
}

bool model_is_free(const struct model *model, uint64_t start, uint64_t n_bytes)
{
        for (unsigned i = 0; i < MODEL_N_HEAPS; i++) {
                if (is_any_in(&model->heaps[i].blocks, start, n_bytes))
                        return false;
        }
        return !is_any_in(&model->idle_list, start, n_bytes) &&
               !is_any_in(&model->revoked, start, n_bytes) && start >= MODEL_START &&
               start + n_bytes <= MODEL_START + MODEL_N_GRANULES * HEAP_BLOCK_UNIT;
}

/* Two holes that touch are one, but where runs are kept apart and a block ends between them. */
static bool are_one(const struct model *model, const struct model_heap *heap,
                    const struct model_range *low, const struct model_range *high)
{
        return low->end == high->start &&
               (model->runs == HEAP_JOINED ||
                model_find(&heap->blocks, high->start)->start != high->start);
}

static void merge_with_next(struct model *model, struct model_heap *heap, unsigned index)
{
        struct model_range *free_extent = &heap->extents.at[index];

        if (index + 1 >= heap->extents.n || !are_one(model, heap, free_extent, free_extent + 1))
                return;
        free_extent->end = free_extent[1].end;
        take_out(&heap->extents, index + 1);
}

void model_add_free(struct model *model, struct model_heap *heap, uint64_t start, uint64_t end)
{
        unsigned i = insert(model, &heap->extents,
                            (struct model_range){.start = start, .end = end});

        merge_with_next(model, heap, i);
        if (i > 0)
                merge_with_next(model, heap, i - 1);
}

/* What is left of it on both sides stays. */
void model_cut_free(struct model *model, struct model_heap *heap, uint64_t start, uint64_t end)
{
        const struct model_range *found = model_find(&heap->extents, start);
        struct model_range old, part;

        MODEL_EXPECT(model, found && found->end >= end);
        old = *found;
        take_out(&heap->extents, index_of(&heap->extents, found));
        part = old;
        part.end = start;
        if (part.start < part.end)
                (void)insert(model, &heap->extents, part);
        part.start = end;
        part.end = old.end;
        if (part.start < part.end)
                (void)insert(model, &heap->extents, part);
}

static uint64_t granule_of(uint64_t address)
{
        return (address - MODEL_START) / HEAP_BLOCK_UNIT;
}

static void mark_freed(struct model *model, uint64_t start, uint64_t end, uint32_t epoch)
{
        for (uint64_t i = granule_of(start); i <= granule_of(end - 1); i++)
                model->freed_in[i] = epoch;
}

uint32_t model_freed_in(const struct model *model, const struct model_range *block)
{
        uint32_t epoch = 0;

        for (uint64_t i = granule_of(block->start); i <= granule_of(block->end - 1); i++) {
                if (model->freed_in[i] > epoch)
                        epoch = model->freed_in[i];
        }
        return epoch;
}

static void put_block(struct model *model, struct model_heap *heap, struct heap_block *record)
{
        uint64_t start = record->at.start, end = start + record->at.n_bytes;

        (void)insert(model, &heap->blocks,
                     (struct model_range){.start = start, .end = end, .record = record});
        model_add_free(model, heap, start, end);
        mark_freed(model, start, end, 0);
        model->came_at[record - model->records] = model->clock++;
        heap->is_more_to_settle = true;
}

static void take_block_out(struct model *model, struct model_heap *heap,
                           const struct heap_block *record)
{
        const struct model_range *block = model_find(&heap->blocks, record->at.start);

        MODEL_EXPECT(model, block && block->record == record);
        model_cut_free(model, heap, block->start, block->end);
        take_out(&heap->blocks, index_of(&heap->blocks, block));
}

/* Some have no word, and some a wrong one. */
static void set_word(struct model *model, struct heap_block *record)
{
        uint64_t kind = test_random_below(&model->random, 64);

        record->lease = ++model->n_leases;
        *model_word(model, record) = kind == 1 ? 0 : board_word(record->lease, BOARD_BUSY);
        record->word = kind ? model_word(model, record) : NULL;
}

void model_add_block(struct model *model, struct model_heap *heap, uint64_t start, uint64_t n_bytes)
{
        struct heap_block *record;

        MODEL_EXPECT(model, model->n_unused > 0 && model_is_free(model, start, n_bytes));
        record = model->unused[--model->n_unused];
        *record = (struct heap_block){.at = {start, n_bytes}};
        set_word(model, record);
        MODEL_EXPECT(model, arena_put(model->arena, &record->at) == 0);
        MODEL_EXPECT(model, heap_add_block(model_heap(heap), record) == 0);
        heap_set_count(&model->heap_set, n_bytes);
        put_block(model, heap, record);
}

/* The lease is over and its slot free. */
static void give_back(struct model *model, struct heap_block *record)
{
        MODEL_EXPECT(model, record->heap == NULL);
        *model_word(model, record) = 0;
        heap_set_forget(&model->heap_set, record->at.n_bytes);
        arena_take_out(model->arena, &record->at);
        model->unused[model->n_unused++] = record;
}

void model_forget_block(struct model *model, struct model_heap *heap, struct heap_block *record)
{
        model_expect_busy(model, record);
        take_block_out(model, heap, record);
        give_back(model, record);
}

void model_move_block(struct model *model, struct model_heap *from, struct model_heap *to,
                      struct heap_block *record)
{
        take_block_out(model, from, record);
        put_block(model, to, record);
}

static void put_in(struct model *model, struct model_ranges *blocks, struct heap_block *record)
{
        (void)insert(model, blocks,
                     (struct model_range){.start = record->at.start,
                                          .end = record->at.start + record->at.n_bytes,
                                          .record = record});
}

static void take_from(struct model *model, struct model_ranges *blocks,
                      const struct heap_block *record)
{
        const struct model_range *block = model_find(blocks, record->at.start);

        MODEL_EXPECT(model, block && block->record == record);
        take_out(blocks, index_of(blocks, block));
}

void model_expect_busy(struct model *model, const struct heap_block *record)
{
        MODEL_EXPECT(model, !board_is(model_word(model, record), record->lease, BOARD_IDLE));
        MODEL_EXPECT(model, !board_is(model_word(model, record), record->lease, BOARD_REVOKED));
}

void model_put_block_idle(struct model *model, struct model_heap *heap, struct heap_block *record)
{
        take_block_out(model, heap, record);
        put_in(model, &model->idle_list, record);
        model->n_put_idle++;
}

void model_reuse_block(struct model *model, struct model_heap *heap, struct heap_block *record)
{
        model_expect_busy(model, record);
        take_from(model, &model->idle_list, record);
        put_block(model, heap, record);
        model->n_reused++;
}

void model_take_block_off(struct model *model, struct heap_block *record)
{
        model_expect_busy(model, record);
        take_from(model, &model->idle_list, record);
        give_back(model, record);
}

void model_revoke_block(struct model *model, struct heap_block *record)
{
        take_from(model, &model->idle_list, record);
        put_in(model, &model->revoked, record);
        model->n_revoked++;
}

void model_unmap_block(struct model *model, struct heap_block *record)
{
        take_from(model, &model->revoked, record);
        give_back(model, record);
}

/* Whatever the heap believes: each block there is the process's own. */
static void expect_own(struct model *model, uint64_t start, uint64_t end)
{
        while (start < end) {
                const struct heap_block *block = heap_block_at(model->arena, start);

                MODEL_EXPECT(model, block);
                model_expect_busy(model, block);
                MODEL_EXPECT(model,
                             !is_any_in(&model->revoked, block->at.start, block->at.n_bytes));
                start = block->at.start + block->at.n_bytes;
        }
}

void model_take(struct model *model, struct model_heap *heap, uint64_t n_bytes, uint64_t address)
{
        uint64_t end = address + model_rounded(n_bytes, HEAP_UNIT);
        const struct model_range *slab = model_find(&heap->slabs, address);
        const struct model_range *free_extent = model_find(&heap->extents, address);

        expect_own(model, address, end);
        if (slab) {
                MODEL_EXPECT(model, end - address == slab->n_place_bytes && end <= slab->end);
                MODEL_EXPECT(model, (address - slab->start) % slab->n_place_bytes == 0);
                MODEL_EXPECT(model, !model_find(&heap->live, address));
        } else {
                MODEL_EXPECT(model, free_extent && free_extent->start == address &&
                                            free_extent->end >= end);
                model_cut_free(model, heap, address, end);
        }
        (void)insert(
                model, &heap->live,
                (struct model_range){.start = address, .end = end, .n_requested_bytes = n_bytes});
}

/* Returns the hole that it is part of then; 0: of none. */
static uint64_t end_memory(struct model *model, struct model_heap *heap,
                           const struct model_range *live)
{
        const struct model_range *slab = model_find(&heap->slabs, live->start);

        if (!slab)
                model_add_free(model, heap, live->start, live->end);
        else if (model_count_in(heap, slab))
                return 0;
        else
                model_end_slab(model, heap, slab->start);
        return model_bytes(model_find(&heap->extents, live->start));
}

void model_free(struct model *model, struct model_heap *heap, unsigned index)
{
        struct model_range live = heap->live.at[index];
        struct heap_freed freed;

        take_out(&heap->live, index);
        if (test_random_below(&model->random, 4) == 0) {
                MODEL_EXPECT(model, heap_free_idle(model_heap(heap), live.start, &freed) == 0);
        } else {
                MODEL_EXPECT(model, heap_free(model_heap(heap), live.start, &freed) == 0);
                mark_freed(model, live.start, live.end, heap->epoch);
                heap->n_freed_bytes += model_bytes(&live);
        }
        model->last_freed = live.start;
        MODEL_EXPECT(model, freed.n_requested_bytes == live.n_requested_bytes);
        MODEL_EXPECT(model, freed.n_allocated_bytes == model_bytes(&live));
        MODEL_EXPECT(model, freed.n_extent_bytes == end_memory(model, heap, &live));
}

uint64_t model_best_fit(const struct model_heap *heap, uint64_t n_bytes)
{
        uint64_t n_best = 0;

        for (unsigned i = 0; i < heap->extents.n; i++) {
                uint64_t n_free_extent = model_bytes(&heap->extents.at[i]);

                if (n_free_extent >= n_bytes && (!n_best || n_free_extent < n_best))
                        n_best = n_free_extent;
        }
        return n_best;
}
