/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "tests/model/heap_model.h"

static bool is_idle(const struct model *model, const struct model_heap *heap,
                    const struct model_range *block)
{
        return model_freed_in(model, block) < heap->n_done_epochs;
}

/* No byte of it was freed in an epoch that is not over: without looking at holes. */
static void expect_done(struct model *model, const struct model_heap *heap,
                        const struct heap_block *record)
{
        uint64_t first = (record->at.start - MODEL_START) / HEAP_BLOCK_UNIT;

        for (uint64_t i = 0; i < record->at.n_bytes / HEAP_BLOCK_UNIT; i++)
                MODEL_EXPECT(model, model->freed_in[first + i] < heap->n_done_epochs);
}

static bool covers(const struct model_range *free_extent, const struct model_range *block)
{
        return block->start >= free_extent->start && block->end <= free_extent->end;
}

/* The first of the idle blocks that the hole covers one after another and that hold n_bytes, or NULL. */
static const struct model_range *room_in(const struct model *model, const struct model_heap *heap,
                                         const struct model_range *free_extent, uint64_t n_bytes)
{
        const struct model_range *first = NULL;

        for (unsigned i = 0; i < heap->blocks.n; i++) {
                const struct model_range *block = &heap->blocks.at[i];

                if (!covers(free_extent, block))
                        continue;
                if (!is_idle(model, heap, block))
                        first = NULL;
                else if (!first)
                        first = block;
                if (first && block->end - first->start >= n_bytes)
                        return first;
        }
        return NULL;
}

/* The smallest hole of other heaps that has room; 0: none. */
static uint64_t smallest_to_adopt(struct model *model, const struct model_heap *heap,
                                  uint64_t n_bytes)
{
        uint64_t n_best = 0;

        for (struct model_heap *from = model->heaps; from < model->heaps + MODEL_N_HEAPS; from++) {
                for (unsigned i = 0; from != heap && i < from->extents.n; i++) {
                        const struct model_range *free_extent = &from->extents.at[i];

                        if (room_in(model, from, free_extent, n_bytes) &&
                            (!n_best || model_bytes(free_extent) < n_best))
                                n_best = model_bytes(free_extent);
                }
        }
        return n_best;
}

/* Those that are in the heap now: from the first of the room on, and no more than needed. */
static void follow_moves(struct model *model, struct model_heap *from, struct model_heap *to,
                         uint64_t n_free_extent, uint64_t n_bytes)
{
        uint64_t n_moved = 0, end = 0;

        for (unsigned i = 0; i < from->blocks.n;) {
                const struct model_range *block = &from->blocks.at[i];
                const struct model_range *free_extent = model_covering(from, block);

                if (block->record->heap != model_heap(to)) {
                        i++;
                        continue;
                }
                MODEL_EXPECT(model,
                             free_extent && is_idle(model, from, block) && n_moved < n_bytes);
                MODEL_EXPECT(model, n_moved ? block->start == end
                                            : model_bytes(free_extent) == n_free_extent);
                MODEL_EXPECT(model, n_moved || room_in(model, from, free_extent, n_bytes) == block);
                expect_done(model, from, block->record);
                end = block->end;
                n_moved += model_bytes(block);
                model_move_block(model, from, to, block->record);
        }
        MODEL_EXPECT(model, n_moved >= n_bytes);
}

bool model_adopt(struct model *model, struct model_heap *heap, uint64_t n_bytes)
{
        uint64_t n_rounded = model_rounded(n_bytes, HEAP_UNIT);
        uint64_t n_free_extent = smallest_to_adopt(model, heap, n_rounded);
        struct model_unshelving foretold = model_foretell_unshelving(model, heap, n_rounded);
        bool adopted = heap_set_adopt(&model->heap_set, &heap->in_set, n_rounded);

        /* What came before a revoked block was met may be enough with idle ones on the heap's other side. */
        MODEL_EXPECT(model, adopted == (foretold.is_enough || n_free_extent != 0) ||
                                    (adopted && !foretold.is_exact));
        model_follow_unshelving(model, heap, n_rounded, &foretold);
        if (adopted && !foretold.is_enough) {
                for (struct model_heap *from = model->heaps; from < model->heaps + MODEL_N_HEAPS;
                     from++) {
                        if (from != heap && model_heap(from)->n_blocks != from->blocks.n)
                                follow_moves(model, from, heap, n_free_extent, n_rounded);
                }
        }
        MODEL_EXPECT(model, model_heap(heap)->n_blocks == heap->blocks.n);
        return adopted;
}

static bool overlaps(const struct model_range *block, uint64_t start, uint64_t end)
{
        return block->start < end && block->end > start;
}

/* It covers an idle block that stands elsewhere than between the two. */
static bool has_one_to_take(const struct model *model, const struct model_heap *heap,
                            const struct model_range *free_extent, uint64_t start, uint64_t end)
{
        for (unsigned i = 0; i < heap->blocks.n; i++) {
                const struct model_range *block = &heap->blocks.at[i];

                if (covers(free_extent, block) && is_idle(model, heap, block) &&
                    !overlaps(block, start, end))
                        return true;
        }
        return false;
}

/* The smallest such hole; 0: none. */
static uint64_t smallest_to_take(struct model *model, uint64_t start, uint64_t end)
{
        uint64_t n_best = 0;

        for (struct model_heap *heap = model->heaps; heap < model->heaps + MODEL_N_HEAPS; heap++) {
                for (unsigned i = 0; i < heap->extents.n; i++) {
                        const struct model_range *free_extent = &heap->extents.at[i];

                        if (has_one_to_take(model, heap, free_extent, start, end) &&
                            (!n_best || model_bytes(free_extent) < n_best))
                                n_best = model_bytes(free_extent);
                }
        }
        return n_best;
}

static bool has_other(const struct model *model, const struct model_run *run, uint64_t start,
                      uint64_t end)
{
        for (unsigned i = 0; i < model->idle_list.n; i++) {
                const struct model_range *block = &model->idle_list.at[i];

                if (block->start >= run->start && block->end <= run->end &&
                    !overlaps(block, start, end))
                        return true;
        }
        return false;
}

/* The same on the idle list. Is there any, and how large is the run? */
static uint64_t smallest_idle(struct model *model, enum model_view view, uint64_t start,
                              uint64_t end)
{
        struct model_run run;
        uint64_t n_best = 0;
        unsigned next = 0;

        while (model_next_run(model, NULL, view, &next, &run)) {
                if (has_other(model, &run, start, end) && (!n_best || run.end - run.start < n_best))
                        n_best = run.end - run.start;
        }
        return n_best;
}

/* Of a heap. */
static void judge_taken(struct model *model, struct heap_block *record, uint64_t n_free_extent)
{
        const struct model_range *block = NULL, *free_extent;
        struct model_heap *heap = model->heaps;

        while (!(block = model_find(&heap->blocks, record->at.start)))
                MODEL_EXPECT(model, ++heap < model->heaps + MODEL_N_HEAPS);
        free_extent = model_covering(heap, block);
        MODEL_EXPECT(model, free_extent && model_bytes(free_extent) == n_free_extent &&
                                    is_idle(model, heap, block));
        MODEL_EXPECT(model, block->record == record);
        expect_done(model, heap, record);
        model_forget_block(model, heap, record);
}

/* While the idle list is as the client sees it, the smallest is known before. */
bool model_take_idle(struct model *model, uint64_t start, uint64_t end)
{
        uint64_t n_free_extent = smallest_to_take(model, start, end);
        uint64_t n_seen = smallest_idle(model, MODEL_SEEN, start, end);
        uint64_t n_good = smallest_idle(model, MODEL_GOOD, start, end);
        bool is_seen = model_count_good(model) == model->idle_list.n;
        struct heap_block *record = heap_set_take_idle(&model->heap_set, start, end);

        MODEL_EXPECT(model, !record || n_free_extent || n_good);
        MODEL_EXPECT(model, record || (!n_free_extent && !(is_seen && n_seen)));
        if (record) {
                const struct model_range *block = model_find(&model->idle_list, record->at.start);

                MODEL_EXPECT(model, !overlaps(&(struct model_range){.start = record->at.start,
                                                                    .end = record->at.start +
                                                                           record->at.n_bytes},
                                              start, end));
                if (is_seen)
                        MODEL_EXPECT(model, block ? !n_free_extent || n_seen <= n_free_extent
                                                  : !n_seen || n_free_extent <= n_seen);
                if (block)
                        model_take_block_off(model, record);
                else
                        judge_taken(model, record, n_free_extent);
        }
        model_follow_revoked(model);
        return record != NULL;
}

/* A block of another heap or of the idle list that the plan may take begins there: idle, as far as the client knows. */
static const struct model_range *others_at(struct model *model, const struct model_heap *heap,
                                           uint64_t address)
{
        const struct model_range *block = model_find(&model->idle_list, address);

        for (struct model_heap *from = model->heaps; from < model->heaps + MODEL_N_HEAPS; from++) {
                const struct model_range *found = model_find(&from->blocks, address);

                if (from != heap && found && model_covering(from, found) &&
                    is_idle(model, from, found))
                        block = found;
        }
        return block && block->start == address ? block : NULL;
}

/* Free, in order, and together with holes of the heap and blocks of others one range. */
static void judge_plan(struct model *model, const struct model_heap *heap, uint64_t n_bytes,
                       const struct new_blocks *plan)
{
        uint64_t n_sum = 0, at = plan->start;
        unsigned next = 0;

        MODEL_EXPECT(model, plan->n_parts <= NEW_BLOCKS_PARTS);
        MODEL_EXPECT(model, plan->end - plan->start >= n_bytes);
        for (unsigned i = 0; i < plan->n_parts; i++) {
                const struct arena_block *part = &plan->parts[i];

                MODEL_EXPECT(model, part->n_bytes && !(part->n_bytes % HEAP_BLOCK_UNIT));
                MODEL_EXPECT(model, model_is_free(model, part->start, part->n_bytes));
                MODEL_EXPECT(model, !i || part[-1].start + part[-1].n_bytes <= part->start);
                n_sum += part->n_bytes;
        }
        MODEL_EXPECT(model, n_sum == plan->n_bytes);
        while (at < plan->end) {
                const struct model_range *free_extent, *others;

                if (next < plan->n_parts && plan->parts[next].start == at) {
                        at += plan->parts[next++].n_bytes;
                        continue;
                }
                others = others_at(model, heap, at);
                free_extent = others ? others : model_find(&heap->extents, at);
                MODEL_EXPECT(model, free_extent && free_extent->start == at);
                at = free_extent->end;
        }
        MODEL_EXPECT(model, at == plan->end && next == plan->n_parts);
}

/* A little more than what is missing at most. */
static void judge_growth(struct model *model, const struct model_heap *heap, uint64_t n_bytes,
                         const struct new_blocks *plan)
{
        uint64_t n_most = model_rounded(n_bytes, HEAP_BLOCK_UNIT);
        uint64_t n_ahead = model->runs == HEAP_JOINED ? model->heap_set.budget.n_peak_bytes / 128
                                                      : model_sum(&heap->blocks) / 8;

        MODEL_EXPECT(model, plan->n_bytes <= (n_ahead > n_most ? n_ahead : n_most));
}

static uint64_t longest_gap(struct model *model)
{
        uint64_t n_longest = 0, n_gap = 0;

        for (uint64_t i = 0; i < MODEL_N_GRANULES; i++) {
                bool free = model_is_free(model, MODEL_START + i * HEAP_BLOCK_UNIT,
                                          HEAP_BLOCK_UNIT);

                n_gap = free ? n_gap + HEAP_BLOCK_UNIT : 0;
                n_longest = n_gap > n_longest ? n_gap : n_longest;
        }
        return n_longest;
}

/* Those of the place that are in the heap now. */
static void follow_planned(struct model *model, struct model_heap *to)
{
        for (struct model_heap *from = model->heaps; from < model->heaps + MODEL_N_HEAPS; from++) {
                for (unsigned i = 0; from != to && i < from->blocks.n;) {
                        const struct model_range *block = &from->blocks.at[i];

                        if (block->record->heap != model_heap(to)) {
                                i++;
                                continue;
                        }
                        expect_done(model, from, block->record);
                        model->n_planned++;
                        model_move_block(model, from, to, block->record);
                }
        }
        for (unsigned i = 0; i < model->idle_list.n;) {
                struct heap_block *record = model->idle_list.at[i].record;

                if (record->heap == model_heap(to))
                        model_reuse_block(model, to, record);
                else
                        i++;
        }
        model_follow_revoked(model);
}

/* Takes what stands in the place. False: the daemon has revoked some of it. */
static bool take_planned(struct model *model, struct model_heap *heap,
                         const struct new_blocks *plan)
{
        unsigned n_revoked = model->idle_list.n - model_count_good(model);
        int r = heap_set_take_planned(&model->heap_set, &heap->in_set, plan);

        MODEL_EXPECT(model, r == 0 || (r == 1 && n_revoked));
        follow_planned(model, heap);
        for (uint64_t at = plan->start; !r && at < plan->end; at += HEAP_BLOCK_UNIT)
                MODEL_EXPECT(model, !others_at(model, heap, at));
        return r == 0;
}

/* The block was as idle as one that is returned, stood outside of the place, and fits a gap of it. */
static void judge_move(struct model *model, struct model_heap *heap,
                       const struct heap_set_move *move, const struct new_blocks *before)
{
        struct heap_block *record = move->block;
        const struct model_range block = {.start = record->at.start,
                                          .end = record->at.start + record->at.n_bytes};
        struct model_heap *from = model->heaps;

        MODEL_EXPECT(model, !overlaps(&block, before->start, before->end));
        MODEL_EXPECT(model, model_bytes(&block) <= before->n_block_bytes);
        MODEL_EXPECT(model, move->to >= before->start &&
                                    move->to + model_bytes(&block) <= before->needed_end);
        if (model_find(&model->idle_list, block.start))
                model_take_block_off(model, record);
        else {
                while (!model_find(&from->blocks, block.start))
                        MODEL_EXPECT(model, ++from < model->heaps + MODEL_N_HEAPS);
                MODEL_EXPECT(model, model_covering(from, &block) && is_idle(model, from, &block));
                expect_done(model, from, record);
                model_forget_block(model, from, record);
        }
        model->n_moved++;
        model_add_block(model, heap, move->to, model_bytes(&block));
}

/* None is left that a gap could have had, except that the largest went first. */
static bool is_any_movable(struct model *model, const struct new_blocks *plan, uint64_t n_most)
{
        for (struct model_heap *heap = model->heaps; heap < model->heaps + MODEL_N_HEAPS; heap++) {
                for (unsigned i = 0; i < heap->blocks.n; i++) {
                        const struct model_range *block = &heap->blocks.at[i];

                        if (model_covering(heap, block) && is_idle(model, heap, block) &&
                            !overlaps(block, plan->start, plan->end) &&
                            model_bytes(block) <= n_most)
                                return true;
                }
        }
        return false;
}

/* Up to what the request needs, each place of a gap is filled once: by a block that moved, or by a part. Behind that,
 * nothing moves, and nothing is leased if moves have served the request. */
static void judge_rest(struct model *model, const struct new_blocks *plan,
                       const struct new_blocks *before, uint64_t n_moved_bytes)
{
        uint64_t n_dropped = 0;

        if (n_moved_bytes && !plan->n_parts) {
                const struct arena_block *last = &before->parts[before->n_parts - 1];
                uint64_t end = last->start + last->n_bytes;

                n_dropped = end > before->needed_end ? end - before->needed_end : 0;
                MODEL_EXPECT(model, !n_dropped || plan->end == before->needed_end);
        }
        MODEL_EXPECT(model, plan->n_bytes + n_moved_bytes + n_dropped == before->n_bytes);
}

static void move_some(struct model *model, struct model_heap *heap, struct new_blocks *plan)
{
        struct heap_set_move moves[HEAP_SET_MOVES];
        const struct new_blocks before = *plan;
        unsigned n_most = (unsigned)test_random_below(&model->random, HEAP_SET_MOVES + 1), n;
        uint64_t n_moved_bytes = 0;

        n = heap_set_take_moves(&model->heap_set, &heap->in_set, HEAP_SET_ALL, n_most, plan, moves);
        MODEL_EXPECT(model, n <= n_most);
        for (unsigned i = 0; i < n; i++) {
                n_moved_bytes += moves[i].block->at.n_bytes;
                judge_move(model, heap, &moves[i], &before);
        }
        model_follow_revoked(model);
        judge_rest(model, plan, &before, n_moved_bytes);
        for (unsigned i = 0; n < n_most && i < plan->n_parts; i++) {
                uint64_t start = plan->parts[i].start, end = start + plan->parts[i].n_bytes;

                end = end < plan->needed_end ? end : plan->needed_end;
                MODEL_EXPECT(model, start >= end || !is_any_movable(model, plan, end - start));
        }
}

bool model_lease(struct model *model, struct model_heap *heap, uint64_t n_bytes)
{
        uint64_t n_rounded = model_rounded(n_bytes, HEAP_UNIT);
        struct new_blocks plan;
        int r;

        model->now_us += test_random_below(&model->random, 20000);
        (void)heap_set_excess(&model->heap_set, n_rounded, model->now_us);
        r = heap_set_plan(&model->heap_set, &heap->in_set, n_rounded, HEAP_SET_ALL, &plan);
        if (r == -ENOMEM) {
                MODEL_EXPECT(model, longest_gap(model) < n_rounded);
                return false;
        }
        MODEL_EXPECT(model, r == 0);
        judge_plan(model, heap, n_rounded, &plan);
        judge_growth(model, heap, n_rounded, &plan);
        if (!take_planned(model, heap, &plan) || plan.n_parts > model->n_unused)
                return false;
        if (model->runs == HEAP_JOINED && test_random_below(&model->random, 2))
                move_some(model, heap, &plan);
        for (unsigned i = 0; i < plan.n_parts; i++)
                model_add_block(model, heap, plan.parts[i].start, plan.parts[i].n_bytes);
        MODEL_EXPECT(model, model_covering(heap, &(struct model_range){.start = plan.start,
                                                                       .end = plan.end}));
        return true;
}
