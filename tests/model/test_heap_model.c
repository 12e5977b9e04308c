/* SPDX-License-Identifier: Apache-2.0 */
/* Random operations on the heaps of a set, and on a naive model of them. */
#include <stdlib.h>

#include "base/err.h"
#include "gpumem.h"
#include "tests/model/heap_model.h"
#include "tests/suite.h"

/* With sanitizers a million together, joined and apart. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define N_STEPS UINT64_C(500000)
#else
#define N_STEPS UINT64_C(1000000)
#endif

#define N_LIVE_MAX  60 /* a heap */
#define PHASE_STEPS 500

static uint64_t below(struct model *model, uint64_t n)
{
        return test_random_below(&model->random, n);
}

static struct model_heap *any_heap(struct model *model)
{
        return &model->heaps[below(model, MODEL_N_HEAPS)];
}

/* Small, or of few sizes so that many holes are equal, or up to 32 MiB. */
static uint64_t any_size(struct model *model)
{
        static const uint64_t favourites[] = {512, 1024, 64 * KIB, 2 * MIB, 3 * MIB};

        switch (below(model, 4)) {
        case 0:
                return test_random_size(&model->random, 16 * KIB);
        case 1:
                return favourites[below(model, ARRAY_SIZE(favourites))];
        default:
                return test_random_size(&model->random, 32 * MIB);
        }
}

/* From a hole, if any is large enough. */
static bool alloc_from_free(struct model *model, struct model_heap *heap, uint64_t n_bytes)
{
        uint64_t n_best = model_best_fit(heap, model_rounded(n_bytes, HEAP_UNIT));
        const struct model_range *free_extent;
        uint64_t address = 0;
        int r = heap_alloc(model_heap(heap), n_bytes, &address);

        if (!n_best && !model_has_place(heap, model_rounded(n_bytes, HEAP_UNIT))) {
                MODEL_EXPECT(model, r == GPUMEM_E_REFUSED && address == 0);
                return false;
        }
        MODEL_EXPECT(model, r == 0);
        model_meet_slab(model, heap, address);
        free_extent = model_find(&heap->extents, address);
        if (free_extent)
                MODEL_EXPECT(model, model_bytes(free_extent) >= n_best);
        model_take(model, heap, n_bytes, address);
        return true;
}

static void alloc(struct model *model)
{
        struct model_heap *heap = any_heap(model);
        uint64_t n_bytes = any_size(model);

        if (heap->live.n >= N_LIVE_MAX || alloc_from_free(model, heap, n_bytes))
                return;
        if ((below(model, 2) && model_adopt(model, heap, n_bytes)) ||
            model_lease(model, heap, n_bytes))
                MODEL_EXPECT(model, alloc_from_free(model, heap, n_bytes));
}

static void free_one(struct model *model)
{
        struct model_heap *heap = any_heap(model);

        if (heap->live.n)
                model_free(model, heap, (unsigned)below(model, heap->live.n));
}

/* An address that a program could free by mistake. */
static uint64_t any_address(struct model *model, const struct model_heap *heap)
{
        const struct model_range *live = NULL;

        if (heap->live.n)
                live = &heap->live.at[below(model, heap->live.n)];
        switch (below(model, 5)) {
        case 0:
                return model->last_freed;
        case 1:
                return test_random_next(&model->random);
        case 2:
                return live ? live->end : 0;
        case 3:
                return live ? live->start + below(model, model_bytes(live)) : 1;
        default:
                return MODEL_START + below(model, MODEL_N_GRANULES) * HEAP_BLOCK_UNIT;
        }
}

static void look_up(struct model *model)
{
        struct model_heap *heap = any_heap(model), *in = any_heap(model);
        uint64_t address = any_address(model, in);
        const struct model_range *live = model_find(&heap->live, address);
        struct heap_allocation allocation;
        struct heap_freed freed;

        if (!live || live->start != address)
                MODEL_EXPECT(model,
                             heap_free(model_heap(heap), address, &freed) == GPUMEM_E_NOT_OURS);
        if (!live) {
                MODEL_EXPECT(model, heap_find(model_heap(heap), address, &allocation) ==
                                            GPUMEM_E_NOT_OURS);
                return;
        }
        MODEL_EXPECT(model, heap_find(model_heap(heap), address, &allocation) == 0);
        MODEL_EXPECT(model, allocation.start == live->start);
        MODEL_EXPECT(model, allocation.n_allocated_bytes == model_bytes(live));
        MODEL_EXPECT(model, allocation.n_requested_bytes == live->n_requested_bytes);
}

/* Anywhere in the arena, or touching a block of some heap above or below, if it is free there. */
static void add_anywhere(struct model *model)
{
        uint64_t n_bytes = (1 + below(model, 16)) * HEAP_BLOCK_UNIT;
        uint64_t start = MODEL_START + below(model, MODEL_N_GRANULES) * HEAP_BLOCK_UNIT;
        const struct model_heap *near = any_heap(model);

        if (near->blocks.n && below(model, 4)) {
                const struct model_range *block = &near->blocks.at[below(model, near->blocks.n)];

                start = below(model, 2) ? block->end : block->start - n_bytes;
        }
        if (model->n_unused && model_is_free(model, start, n_bytes))
                model_add_block(model, any_heap(model), start, n_bytes);
}

static void remove_if_empty(struct model *model)
{
        struct model_heap *heap = any_heap(model);
        const struct model_range *block;
        struct heap_block *record;
        uint32_t free_extent;

        if (!heap->blocks.n)
                return;
        block = &heap->blocks.at[below(model, heap->blocks.n)];
        record = block->record;
        free_extent = heap_block_extent(model_heap(heap), record);
        MODEL_EXPECT(model, !free_extent == !model_covering(heap, block));
        if (!free_extent)
                return;
        MODEL_EXPECT(model, heap_remove_block(model_heap(heap), record) == 0);
        model_forget_block(model, heap, record);
}

/* From anywhere, or sparing a part of the arena. */
static void take_idle(struct model *model)
{
        uint64_t start = MODEL_START + below(model, MODEL_N_GRANULES) * HEAP_BLOCK_UNIT;
        uint64_t n_bytes = below(model, 64) * HEAP_BLOCK_UNIT;

        if (below(model, 2))
                (void)model_take_idle(model, 0, 0);
        else
                (void)model_take_idle(model, start, start + n_bytes);
}

static void end_epoch(struct model *model)
{
        struct model_heap *heap = any_heap(model);

        MODEL_EXPECT(model, heap_new_epoch(model_heap(heap)) == heap->epoch);
        heap->epoch++;
        heap->n_freed_bytes = 0;
}

/* Some of what is not over yet. */
static void pass_epochs(struct model_heap *heap, uint32_t n_epochs)
{
        heap->n_done_epochs += n_epochs;
        model_heap(heap)->n_done_epochs = heap->n_done_epochs;
}

static void pass_some_epochs(struct model *model)
{
        struct model_heap *heap = any_heap(model);

        pass_epochs(heap, (uint32_t)below(model, heap->epoch - heap->n_done_epochs + 1));
}

static void use_idle_list(struct model *model)
{
        uint64_t choice = below(model, 100);

        if (choice < 30)
                model_put_idle(model);
        else if (choice < 60)
                model_settle(model);
        else if (choice < 75)
                model_sweep(model);
        else if (choice < 99)
                (void)model_unmap_one(model);
        else if (below(model, 10) == 0)
                model_lose_words(model);
}

/* The daemon may come at any step: mostly for a few blocks, sometimes for all. */
static void be_daemon(struct model *model)
{
        if (below(model, 50) == 0)
                model_revoke_some(model, 1 + (unsigned)below(model, 40));
        if (below(model, 5000) == 0)
                model_revoke_some(model, 4 * MODEL_N_RECORDS);
}

/* Phases of growth and of shrinking, so that both full heaps and empty ones are met. */
static void step_once(struct model *model)
{
        uint64_t n_allocs_of_70 = model->step / PHASE_STEPS % 2 ? 25 : 45;
        uint64_t choice = below(model, 100);

        if (choice < n_allocs_of_70)
                alloc(model);
        else if (choice < 70)
                free_one(model);
        else if (choice < 75)
                look_up(model);
        else if (choice < 79)
                add_anywhere(model);
        else if (choice < 82)
                remove_if_empty(model);
        else if (choice < 84)
                take_idle(model);
        else if (choice < 89)
                end_epoch(model);
        else if (choice < 94)
                pass_some_epochs(model);
        else
                use_idle_list(model);
}

/* All is freed and over: every block can be taken. */
static void drain(struct model *model)
{
        for (unsigned i = 0; i < MODEL_N_HEAPS; i++) {
                struct model_heap *heap = &model->heaps[i];

                while (heap->live.n) {
                        model_free(model, heap, 0);
                        model_compare(model);
                }
                (void)heap_new_epoch(model_heap(heap));
                heap->n_freed_bytes = 0;
                heap->epoch++;
                pass_epochs(heap, heap->epoch - heap->n_done_epochs);
        }
        model_put_idle(model);
        model_sweep(model);
        while (model_take_idle(model, 0, 0) || model_unmap_one(model))
                model_compare(model);
        MODEL_EXPECT(model, model->n_unused == MODEL_N_RECORDS);
        MODEL_EXPECT(model, model->heap_set.n_reserved_bytes == 0);
}

TEST(heaps_do_what_the_model_does, .from = HEAP_JOINED, .to = HEAP_SPLIT + 1)
{
        static struct model model;
        uint64_t n_steps = test_number_from_environment("GPUMEM_TEST_STEPS", N_STEPS);

        model_init(&model, (enum heap_runs)_i);
        for (model.step = 0; model.step < n_steps; model.step++) {
                be_daemon(&model);
                step_once(&model);
                model_compare(&model);
        }
        if (n_steps >= N_STEPS)
                MODEL_EXPECT(&model, model.n_put_idle && model.n_reused && model.n_revoked &&
                                             model.n_slabs > n_steps / 1000);
        if (n_steps >= N_STEPS && _i == HEAP_JOINED)
                MODEL_EXPECT(&model, model.n_planned && model.n_moved);
        drain(&model);
        model_deinit(&model);
}

TESTS_MAIN("heap_model", .limit_s = UNLIMITED)
