/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/model/heap_model.h"

unsigned model_count_good(struct model *model)
{
        unsigned n = 0;

        for (unsigned i = 0; i < model->idle_list.n; i++)
                n += model_is_good(model, model->idle_list.at[i].record);
        return n;
}

/* By now, and at the last settle: it was there, and what was freed in it was over. */
static bool is_settled(struct model *model, const struct model_heap *heap,
                       const struct model_range *block)
{
        const struct model_range *free_extent = model_covering(heap, block);

        return free_extent && model_freed_in(model, block) < heap->n_settled_epochs &&
               model->came_at[block->record - model->records] < heap->settled_at;
}

/* No byte of it was freed since: without looking at holes. */
static void expect_settled(struct model *model, const struct model_heap *heap,
                           const struct heap_block *record)
{
        uint64_t first = (record->at.start - MODEL_START) / HEAP_BLOCK_UNIT;

        for (uint64_t i = 0; i < record->at.n_bytes / HEAP_BLOCK_UNIT; i++)
                MODEL_EXPECT(model, model->freed_in[first + i] < heap->n_settled_epochs);
}

static bool is_markable(struct model *model, const struct heap_block *record)
{
        return record->word && board_is(model_word(model, record), record->lease, BOARD_BUSY);
}

/* In one pass over the heap as it was: what is to go depends on nothing that goes. */
static unsigned follow_shelving(struct model *model, struct model_heap *heap)
{
        struct heap_block *gone[MODEL_N_RECORDS];
        unsigned n_gone = 0;

        for (unsigned i = 0; i < heap->blocks.n; i++) {
                const struct model_range *block = &heap->blocks.at[i];
                struct heap_block *record = block->record;
                bool is_gone = record->heap != model_heap(heap);

                if (!is_settled(model, heap, block)) {
                        MODEL_EXPECT(model, !is_gone);
                        continue;
                }
                MODEL_EXPECT(model, is_gone || !record->word);
                if (!is_gone)
                        continue;
                MODEL_EXPECT(model, model_is_good(model, record));
                expect_settled(model, heap, record);
                gone[n_gone++] = record;
        }
        for (unsigned i = 0; i < n_gone; i++)
                model_put_block_idle(model, heap, gone[i]);
        return n_gone;
}

/* Those of them that can be marked. */
static unsigned count_settled(struct model *model, const struct model_heap *heap)
{
        unsigned n = 0;

        for (unsigned i = 0; i < heap->blocks.n; i++)
                n += is_settled(model, heap, &heap->blocks.at[i]) &&
                     is_markable(model, heap->blocks.at[i].record);
        return n;
}

void model_put_idle(struct model *model)
{
        unsigned n_settled = 0, n_gone = 0;
        bool found;

        for (unsigned i = 0; i < MODEL_N_HEAPS; i++)
                n_settled += count_settled(model, &model->heaps[i]);
        found = heap_set_put_idle(&model->heap_set, model->now_us);
        for (unsigned i = 0; i < MODEL_N_HEAPS; i++)
                n_gone += follow_shelving(model, &model->heaps[i]);
        MODEL_EXPECT(model, n_gone == n_settled && found == (n_gone > 0));
}

void model_settle(struct model *model)
{
        bool more = false;

        model->clock++;
        for (unsigned i = 0; i < MODEL_N_HEAPS; i++) {
                struct model_heap *heap = &model->heaps[i];

                more = more || heap->is_more_to_settle ||
                       heap->n_settled_epochs < heap->n_done_epochs;
                heap->n_settled_epochs = heap->n_done_epochs;
                heap->settled_at = model->clock;
                heap->is_more_to_settle = false;
        }
        MODEL_EXPECT(model, heap_set_settle(&model->heap_set) == more);
}

/* All that were, when the client looked. */
void model_follow_revoked(struct model *model)
{
        for (unsigned i = 0; i < model->idle_list.n;) {
                struct heap_block *record = model->idle_list.at[i].record;

                if (record->heap) {
                        i++;
                        continue;
                }
                MODEL_EXPECT(model, !model_is_good(model, record));
                model_revoke_block(model, record);
        }
}

void model_sweep(struct model *model)
{
        unsigned n_good = model_count_good(model);

        idle_list_sweep(&model->heap_set.idle_list);
        model_follow_revoked(model);
        MODEL_EXPECT(model, model->idle_list.n == n_good && model_count_good(model) == n_good);
}

bool model_unmap_one(struct model *model)
{
        struct heap_block *record = idle_list_next_revoked(&model->heap_set.idle_list);

        MODEL_EXPECT(model, (record != NULL) == (model->revoked.n > 0));
        if (record)
                model_unmap_block(model, record);
        return record != NULL;
}

static void lose_words(const struct model_ranges *blocks)
{
        for (unsigned i = 0; i < blocks->n; i++)
                blocks->at[i].record->word = NULL;
}

void model_lose_words(struct model *model)
{
        for (unsigned i = 0; i < MODEL_N_HEAPS; i++)
                lose_words(&model->heaps[i].blocks);
        lose_words(&model->idle_list);
}

/* Wherever it is: what is not idle it cannot have. */
void model_revoke_some(struct model *model, unsigned n)
{
        for (unsigned i = 0; i < n; i++) {
                const struct heap_block *record =
                        &model->records[test_random_below(&model->random, MODEL_N_RECORDS)];

                (void)board_step(model_word(model, record), record->lease, BOARD_IDLE,
                                 BOARD_REVOKED);
        }
}

static uint64_t bytes_below(const struct model_heap *heap, uint64_t address)
{
        const struct model_range *free_extent = model_find(&heap->extents, address - 1);

        return free_extent && free_extent->end == address ? model_bytes(free_extent) : 0;
}

static uint64_t bytes_above(const struct model_heap *heap, uint64_t address)
{
        const struct model_range *free_extent = model_find(&heap->extents, address);

        return free_extent && free_extent->start == address ? model_bytes(free_extent) : 0;
}

static bool is_open(const struct model *model, uint64_t address)
{
        return address < MODEL_START ||
               address >= MODEL_START + MODEL_N_GRANULES * HEAP_BLOCK_UNIT ||
               model_is_free(model, address & ~(HEAP_BLOCK_UNIT - 1), HEAP_BLOCK_UNIT);
}

bool model_next_run(struct model *model, const struct model_heap *heap, enum model_view view,
                    unsigned *index, struct model_run *ret_run)
{
        const struct model_range *at = model->idle_list.at;
        struct model_run run = {0};
        unsigned i = *index;

        while (i < model->idle_list.n && view == MODEL_GOOD && !model_is_good(model, at[i].record))
                i++;
        if (i >= model->idle_list.n)
                return false;
        run.start = at[i].start;
        do
                run.end = at[i++].end;
        while (model->runs == HEAP_JOINED && i < model->idle_list.n && at[i].start == run.end &&
               (view == MODEL_SEEN || model_is_good(model, at[i].record)));
        if (heap && model->runs == HEAP_JOINED) {
                run.n_below_bytes = bytes_below(heap, run.start);
                run.n_above_bytes = bytes_above(heap, run.end);
                run.is_open_below = is_open(model, run.start - 1);
                run.is_open_above = is_open(model, run.end);
        }
        *index = i;
        *ret_run = run;
        return true;
}

static uint64_t free_run_bytes(const struct model_run *run)
{
        return run->n_below_bytes + (run->end - run->start) + run->n_above_bytes;
}

static uint64_t larger_hole(const struct model_run *run)
{
        return run->n_above_bytes > run->n_below_bytes ? run->n_above_bytes : run->n_below_bytes;
}

/* By waste, then by the hole of the heap that it continues, then by open ends, then by size. */
static int compare_runs(const struct model_run *a, const struct model_run *b)
{
        uint64_t n_own = larger_hole(a), n_own_of_b = larger_hole(b);
        int n_open = (a->is_open_below || a->is_open_above) -
                     (b->is_open_below || b->is_open_above);

        if (a->n_wasted_bytes != b->n_wasted_bytes)
                return a->n_wasted_bytes < b->n_wasted_bytes ? 1 : -1;
        if (n_own != n_own_of_b)
                return n_own > n_own_of_b ? 1 : -1;
        if (n_open)
                return n_open;
        return (a->end - a->start < b->end - b->start) - (a->end - a->start > b->end - b->start);
}

static bool is_from_above(const struct model_run *run)
{
        if (run->n_above_bytes == run->n_below_bytes)
                return !run->n_above_bytes && !run->is_open_below && run->is_open_above;
        return run->n_above_bytes > run->n_below_bytes;
}

/* The run's blocks are those of the idle list from the first index on, up to the other. */
static uint64_t wasted(const struct model *model, const struct model_run *run, unsigned first,
                       unsigned end, uint64_t n_bytes)
{
        uint64_t n_little = n_bytes / 8 > 2 * MIB ? n_bytes / 8 : 2 * MIB, n_taken = 0;

        while (first < end && larger_hole(run) + n_taken < n_bytes)
                n_taken += model_bytes(&model->idle_list.at[is_from_above(run) ? --end : first++]);
        return n_taken > n_bytes + n_little ? n_taken - n_bytes : 0;
}

struct model_unshelving model_foretell_unshelving(struct model *model,
                                                  const struct model_heap *heap, uint64_t n_bytes)
{
        struct model_unshelving foretold = {.is_exact = model_count_good(model) ==
                                                        model->idle_list.n};
        struct model_run run;
        unsigned first = 0, next = 0;

        for (; model_next_run(model, heap, MODEL_GOOD, &next, &run); first = next) {
                run.n_wasted_bytes = wasted(model, &run, first, next, n_bytes);
                if (free_run_bytes(&run) < n_bytes ||
                    (foretold.is_enough && compare_runs(&run, &foretold.best) <= 0))
                        continue;
                foretold.is_enough = true;
                foretold.best = run;
        }
        return foretold;
}

/* Blocks come from the better end on, and not one too many. */
static void judge_run(struct model *model, struct model_heap *heap, const struct model_run *run,
                      unsigned first, unsigned n_blocks, uint64_t n_bytes)
{
        bool comes_from_above = is_from_above(run);
        uint64_t n_got = larger_hole(run);

        for (unsigned i = 0; i < n_blocks; i++) {
                const struct model_range *block =
                        &model->idle_list
                                 .at[comes_from_above ? first + n_blocks - 1 - i : first + i];
                bool came = block->record->heap == model_heap(heap);

                MODEL_EXPECT(model, came == (n_got < n_bytes));
                n_got += came ? model_bytes(block) : 0;
        }
}

static bool has_come(struct model *model, struct model_heap *heap, unsigned first, unsigned end)
{
        bool came = false;

        for (unsigned i = first; i < end; i++)
                came = came || model->idle_list.at[i].record->heap == model_heap(heap);
        return came;
}

/* Nothing of the idle list was revoked: it is one of the best. */
static void judge_unshelving(struct model *model, struct model_heap *heap, uint64_t n_bytes,
                             const struct model_unshelving *foretold)
{
        struct model_run run;
        unsigned first = 0, next = 0, n_runs = 0;

        for (; model_next_run(model, heap, MODEL_SEEN, &next, &run); first = next) {
                if (!has_come(model, heap, first, next))
                        continue;
                n_runs++;
                run.n_wasted_bytes = wasted(model, &run, first, next, n_bytes);
                MODEL_EXPECT(model, compare_runs(&run, &foretold->best) == 0);
                judge_run(model, heap, &run, first, next - first, n_bytes);
        }
        MODEL_EXPECT(model, n_runs == foretold->is_enough);
}

void model_follow_unshelving(struct model *model, struct model_heap *heap, uint64_t n_bytes,
                             const struct model_unshelving *foretold)
{
        if (foretold->is_exact)
                judge_unshelving(model, heap, n_bytes, foretold);
        for (unsigned i = 0; i < model->idle_list.n;) {
                struct heap_block *record = model->idle_list.at[i].record;

                if (record->heap == model_heap(heap))
                        model_reuse_block(model, heap, record);
                else
                        i++;
        }
        model_follow_revoked(model);
        MODEL_EXPECT(model, !foretold->is_enough || model_best_fit(heap, n_bytes));
}
