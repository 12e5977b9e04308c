/* SPDX-License-Identifier: Apache-2.0 */
#include "client/heap/heap_slabs.h"
#include "tests/model/heap_model.h"

static const struct model_range *next_of(const struct model *model,
                                         const struct model_ranges *ranges, unsigned *n)
{
        MODEL_EXPECT(model, *n < ranges->n);
        return &ranges->at[(*n)++];
}

static void expect_slack(const struct model *model, const struct model_range *live,
                         uint32_t n_slack)
{
        MODEL_EXPECT(model, model_bytes(live) - live->n_requested_bytes == n_slack);
}

/* The next ones that are live have its places. */
static void compare_slab(const struct model *model, const struct model_heap *heap, uint32_t index,
                         unsigned *n_live)
{
        const struct heap *real = &heap->in_set.heap;
        const struct slab *slab = slabs_at(&real->slabs, index);

        for (unsigned i = 0; i < slab->n_places; i++) {
                const struct model_range *live;

                if (slab_is_free(slab, i))
                        continue;
                live = next_of(model, &heap->live, n_live);
                MODEL_EXPECT(model, live->start == heap_address_of(real, slab_unit_of(slab, i)));
                MODEL_EXPECT(model, model_bytes(live) == slab->n_units * HEAP_UNIT);
                expect_slack(model, live, slabs_slack(&real->slabs, index, i));
        }
}

struct passed {
        unsigned n_live, n_free, n_slabs;
};

static const struct model_range *compare_taken(const struct model *model,
                                               const struct model_heap *heap,
                                               const struct extent *extent, struct passed *passed)
{
        const struct heap *real = &heap->in_set.heap;
        uint64_t address = heap_address_of(real, extent->start);
        uint32_t slab = heap_slab_at(real, heap_block_at(model->arena, address), address);
        const struct model_range *range;

        if (slab) {
                compare_slab(model, heap, slab, &passed->n_live);
                return next_of(model, &heap->slabs, &passed->n_slabs);
        }
        range = next_of(model, &heap->live, &passed->n_live);
        expect_slack(model, range, extent->n_slack);
        return range;
}

/* The extents of a run, in order, are the next ones of the arrays. */
static void compare_run(const struct model *model, const struct model_heap *heap, uint32_t edge,
                        struct passed *passed)
{
        const struct heap *real = &heap->in_set.heap;

        for (uint32_t i = edge; i; i = extents_at(&real->extents, i)->after) {
                const struct extent *extent = extents_at(&real->extents, i);
                const struct model_range *range;

                if (extent->state == EXTENT_EDGE)
                        continue;
                if (extent->state == EXTENT_TAKEN)
                        range = compare_taken(model, heap, extent, passed);
                else
                        range = next_of(model, &heap->extents, &passed->n_free);
                MODEL_EXPECT(model, range->start == heap_address_of(real, extent->start));
                MODEL_EXPECT(model, model_bytes(range) == extent->n_units * HEAP_UNIT);
        }
}

static void compare_extents(const struct model *model, const struct model_heap *heap)
{
        const struct heap *real = &heap->in_set.heap;
        struct passed passed = {0, 0, 0};

        for (uint32_t i = 0; i < real->n_blocks; i++) {
                MODEL_EXPECT(model, real->blocks[i] == heap->blocks.at[i].record);
                MODEL_EXPECT(model,
                             real->blocks[i]->epoch == model_freed_in(model, &heap->blocks.at[i]));
                if (real->blocks[i]->edges.before)
                        compare_run(model, heap, real->blocks[i]->edges.before, &passed);
        }
        MODEL_EXPECT(model, passed.n_live == heap->live.n && passed.n_free == heap->extents.n);
        MODEL_EXPECT(model, passed.n_slabs == heap->slabs.n);
}

static void compare_heap(const struct model *model, const struct model_heap *heap)
{
        const struct heap *real = &heap->in_set.heap;
        uint64_t n_requested_bytes = 0, n_place_bytes = 0;

        heap_check(real);
        for (unsigned i = 0; i < heap->live.n; i++) {
                n_requested_bytes += heap->live.at[i].n_requested_bytes;
                if (model_find(&heap->slabs, heap->live.at[i].start))
                        n_place_bytes += model_bytes(&heap->live.at[i]);
        }
        MODEL_EXPECT(model, real->n_blocks == heap->blocks.n);
        MODEL_EXPECT(model, real->n_requested_bytes == n_requested_bytes);
        MODEL_EXPECT(model, real->n_allocated_bytes == model_sum(&heap->live));
        MODEL_EXPECT(model, real->n_reserved_bytes == model_sum(&heap->blocks));
        MODEL_EXPECT(model,
                     real->n_reserved_bytes - model_sum(&heap->extents) ==
                             real->n_allocated_bytes - n_place_bytes + model_sum(&heap->slabs));
        MODEL_EXPECT(model, real->n_requested_bytes <= real->n_allocated_bytes);
        MODEL_EXPECT(model, real->n_allocated_bytes <= real->n_reserved_bytes);
        MODEL_EXPECT(model, real->epoch == heap->epoch);
        MODEL_EXPECT(model, real->n_freed_bytes == heap->n_freed_bytes);
        compare_extents(model, heap);
}

/* Idle, or revoked since, or without a word. */
static void compare_idle_list(struct model *model)
{
        const struct heap *idle_list = &model->heap_set.idle_list.heap;

        heap_check(idle_list);
        MODEL_EXPECT(model, idle_list->n_blocks == model->idle_list.n);
        MODEL_EXPECT(model, idle_list->n_allocated_bytes == 0);
        for (unsigned i = 0; i < model->idle_list.n; i++) {
                const struct heap_block *record = model->idle_list.at[i].record;

                MODEL_EXPECT(model, idle_list->blocks[i] == record && record->heap == idle_list);
                MODEL_EXPECT(model, model_is_good(model, record) || !record->word ||
                                            board_is(record->word, record->lease, BOARD_REVOKED));
        }
}

/* Each is once in the idle list's list. */
static void compare_revoked(struct model *model)
{
        const struct heap_block *record = model->heap_set.idle_list.revoked;
        unsigned n = 0;

        for (; record; record = record->next) {
                const struct model_range *block = model_find(&model->revoked, record->at.start);

                MODEL_EXPECT(model, block && block->record == record && record->heap == NULL);
                MODEL_EXPECT(model, ++n <= model->revoked.n);
        }
        MODEL_EXPECT(model, n == model->revoked.n);
}

static void compare_words(struct model *model, const struct model_heap *heap)
{
        for (unsigned i = 0; i < heap->blocks.n; i++)
                model_expect_busy(model, heap->blocks.at[i].record);
}

static void take_larger(uint64_t *n_largest_bytes, uint64_t n_bytes)
{
        if (n_bytes > *n_largest_bytes)
                *n_largest_bytes = n_bytes;
}

static void count_heap(const struct model *model, const struct model_heap *heap,
                       struct heap_set_sums *sums)
{
        sums->n_live += heap->live.n;
        sums->n_free_bytes += model_sum(&heap->blocks) - model_sum(&heap->live);
        sums->n_free_extents += heap->extents.n;
        for (unsigned i = 0; i < heap->extents.n; i++)
                take_larger(&sums->n_largest_free_bytes, model_bytes(&heap->extents.at[i]));
        for (unsigned i = 0; i < heap->slabs.n; i++) {
                const struct model_range *slab = &heap->slabs.at[i];

                if (model_count_in(heap, slab) * slab->n_place_bytes < model_bytes(slab))
                        take_larger(&sums->n_largest_free_bytes, slab->n_place_bytes);
        }
        MODEL_EXPECT(model, sums->n_free_bytes >= sums->n_largest_free_bytes);
}

/* Blocks that follow each other are one hole, unless runs are kept apart. */
static void count_idle(const struct model *model, struct heap_set_sums *sums)
{
        uint64_t n_bytes = 0;

        for (unsigned i = 0; i < model->idle_list.n; i++) {
                const struct model_range *block = &model->idle_list.at[i];

                if (i == 0 || model->runs == HEAP_SPLIT || block[-1].end != block->start) {
                        sums->n_free_extents++;
                        n_bytes = 0;
                }
                n_bytes += model_bytes(block);
                take_larger(&sums->n_largest_free_bytes, n_bytes);
        }
        sums->n_idle_blocks = model->idle_list.n;
        sums->n_idle_bytes = model_sum(&model->idle_list);
        sums->n_free_bytes += sums->n_idle_bytes;
}

static void compare_sums(struct model *model)
{
        struct heap_set_sums real, sums = {0};

        for (unsigned i = 0; i < MODEL_N_HEAPS; i++)
                count_heap(model, &model->heaps[i], &sums);
        count_idle(model, &sums);
        heap_set_sum(&model->heap_set, &real);
        MODEL_EXPECT(model, real.n_live == sums.n_live);
        MODEL_EXPECT(model, real.n_free_bytes == sums.n_free_bytes);
        MODEL_EXPECT(model, real.n_free_extents == sums.n_free_extents);
        MODEL_EXPECT(model, real.n_largest_free_bytes == sums.n_largest_free_bytes);
        MODEL_EXPECT(model, real.n_idle_bytes == sums.n_idle_bytes);
        MODEL_EXPECT(model, real.n_idle_blocks == sums.n_idle_blocks);
}

void model_compare(struct model *model)
{
        uint64_t n_allocated_bytes = 0;
        uint64_t n_reserved_bytes = model_sum(&model->idle_list) + model_sum(&model->revoked);
        unsigned n_blocks = model->idle_list.n + model->revoked.n;
        bool has_empty = model->idle_list.n;

        compare_idle_list(model);
        compare_revoked(model);
        compare_sums(model);

        for (unsigned i = 0; i < MODEL_N_HEAPS; i++) {
                const struct model_heap *heap = &model->heaps[i];

                compare_heap(model, heap);
                compare_words(model, heap);
                n_allocated_bytes += model_sum(&heap->live);
                n_reserved_bytes += model_sum(&heap->blocks);
                n_blocks += heap->blocks.n;
                for (unsigned k = 0; k < heap->extents.n; k++)
                        has_empty = has_empty || model_first_covered(heap, &heap->extents.at[k]);
        }
        MODEL_EXPECT(model, heap_set_allocated(&model->heap_set) == n_allocated_bytes);
        MODEL_EXPECT(model, model->heap_set.n_reserved_bytes == n_reserved_bytes);
        MODEL_EXPECT(model, model->heap_set.n_reserved_peak_bytes >= n_reserved_bytes);
        MODEL_EXPECT(model, n_blocks + model->n_unused == MODEL_N_RECORDS);
        MODEL_EXPECT(model, heap_set_has_empty(&model->heap_set) == has_empty);
}
