/* Random operations on a heap and on a naive model of it: sorted arrays that are searched from end
 * to end. The model foretells each result, down to the address that an allocation gets. */
#include <check.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "client/heap.h"
#include "gpumem.h"
#include "tests/random.h"
#include "tests/suite.h"

#define ARENA_START      (UINT64_C(1) << 44)
#define ARENA_N_GRANULES 1024
#define N_BLOCKS_MAX     20
#define N_LIVE_MAX       160
#define PHASE_STEPS      500
#define NONE             UINT64_MAX

struct range {
        uint64_t start;
        uint64_t n_bytes;
        uint64_t n_requested_bytes; /* of an allocation */
        void *owner;                /* of a block */
};

struct ranges {
        unsigned n;
        struct range at[N_LIVE_MAX];
};

struct model {
        struct ranges blocks, live;
        uint64_t last_freed;
        char owners[ARENA_N_GRANULES]; /* a block's: the one of its first granule */
};

static void ranges_insert(struct ranges *ranges, struct range range)
{
        unsigned i = ranges->n++;

        ck_assert_uint_lt(i, N_LIVE_MAX);
        for (; i > 0 && ranges->at[i - 1].start > range.start; i--)
                ranges->at[i] = ranges->at[i - 1];
        ranges->at[i] = range;
}

static void ranges_remove(struct ranges *ranges, unsigned index)
{
        ranges->n--;
        memmove(&ranges->at[index], &ranges->at[index + 1],
                (ranges->n - index) * sizeof(ranges->at[0]));
}

static bool is_inside(const struct range *outer, uint64_t address)
{
        return address >= outer->start && address < outer->start + outer->n_bytes;
}

/* The index of the range that the address is in, or -1. */
static int ranges_find(const struct ranges *ranges, uint64_t address)
{
        for (unsigned i = 0; i < ranges->n; i++) {
                if (is_inside(&ranges->at[i], address))
                        return (int)i;
        }
        return -1;
}

static bool block_is_empty(const struct model *model, const struct range *block)
{
        for (unsigned i = 0; i < model->live.n; i++) {
                if (is_inside(block, model->live.at[i].start))
                        return false;
        }
        return true;
}

struct fit {
        uint64_t address, n_bytes, n_holes, n_largest_bytes;
};

static void fit_look_at(struct fit *fit, uint64_t start, uint64_t end, uint64_t n_bytes)
{
        uint64_t n_hole_bytes = end - start;

        if (n_hole_bytes == 0)
                return;
        fit->n_holes++;
        if (n_hole_bytes > fit->n_largest_bytes)
                fit->n_largest_bytes = n_hole_bytes;
        /* Holes come in the order of their addresses: the first among equals stays. */
        if (n_hole_bytes >= n_bytes && (fit->address == NONE || n_hole_bytes < fit->n_bytes)) {
                fit->address = start;
                fit->n_bytes = n_hole_bytes;
        }
}

static struct fit model_fit(const struct model *model, uint64_t n_bytes)
{
        struct fit fit = {.address = NONE};
        unsigned next = 0;

        for (unsigned i = 0; i < model->blocks.n; i++) {
                const struct range *block = &model->blocks.at[i];
                uint64_t end = block->start;

                for (; next < model->live.n && is_inside(block, model->live.at[next].start);
                     next++) {
                        fit_look_at(&fit, end, model->live.at[next].start, n_bytes);
                        end = model->live.at[next].start + model->live.at[next].n_bytes;
                }
                fit_look_at(&fit, end, block->start + block->n_bytes, n_bytes);
        }
        return fit;
}

static uint64_t model_reserved(const struct model *model)
{
        uint64_t n_bytes = 0;

        for (unsigned i = 0; i < model->blocks.n; i++)
                n_bytes += model->blocks.at[i].n_bytes;
        return n_bytes;
}

static void compare(const struct heap *heap, const struct model *model)
{
        struct heap_stats stats;
        struct fit fit = model_fit(model, NONE);
        uint64_t n_requested_bytes = 0, n_allocated_bytes = 0;

        for (unsigned i = 0; i < model->live.n; i++) {
                n_requested_bytes += model->live.at[i].n_requested_bytes;
                n_allocated_bytes += model->live.at[i].n_bytes;
        }
        heap_check(heap);
        heap_get_stats(heap, &stats);
        ck_assert_uint_eq(stats.n_requested_bytes, n_requested_bytes);
        ck_assert_uint_eq(stats.n_allocated_bytes, n_allocated_bytes);
        ck_assert_uint_eq(stats.n_reserved_bytes, model_reserved(model));
        ck_assert_uint_eq(stats.n_blocks, model->blocks.n);
        ck_assert_uint_eq(stats.n_holes, fit.n_holes);
        ck_assert_uint_eq(stats.n_largest_hole_bytes, fit.n_largest_bytes);
}

static bool is_free_arena(const struct model *model, uint64_t start, uint64_t n_bytes)
{
        for (unsigned i = 0; i < model->blocks.n; i++) {
                const struct range *block = &model->blocks.at[i];

                if (start < block->start + block->n_bytes && block->start < start + n_bytes)
                        return false;
        }
        return start + n_bytes <= ARENA_START + ARENA_N_GRANULES * HEAP_BLOCK_UNIT;
}

/* Anywhere in the arena, or touching a block that is there; false if that place is taken. */
static bool add_block(struct heap *heap, struct model *model, struct test_random *random,
                      uint64_t n_bytes)
{
        uint64_t granule = test_random_below(random, ARENA_N_GRANULES);
        uint64_t start = ARENA_START + granule * HEAP_BLOCK_UNIT;
        struct range block = {.n_bytes = n_bytes};

        if (model->blocks.n == N_BLOCKS_MAX)
                return false;
        if (model->blocks.n && test_random_below(random, 2)) {
                const struct range *near = &model->blocks
                                                    .at[test_random_below(random, model->blocks.n)];

                start = near->start + near->n_bytes;
        }
        if (!is_free_arena(model, start, n_bytes))
                return false;
        block.start = start;
        block.owner = &model->owners[(start - ARENA_START) / HEAP_BLOCK_UNIT];
        ck_assert_int_eq(heap_add_block(heap, start, n_bytes, block.owner), 0);
        ranges_insert(&model->blocks, block);
        return true;
}

/* Small, or of few sizes so that many holes are equal, or up to 64 MiB. */
static uint64_t random_request(struct test_random *random)
{
        static const uint64_t favourites[] = {512, 1024, 64 * KIB, 2 * MIB};

        switch (test_random_below(random, 4)) {
        case 0:
                return test_random_size(random, 16 * KIB);
        case 1:
                return favourites[test_random_below(random, ARRAY_SIZE(favourites))];
        default:
                return test_random_size(random, 64 * MIB);
        }
}

static uint64_t rounded(uint64_t n_bytes, uint64_t unit)
{
        return (n_bytes + unit - 1) / unit * unit;
}

/* Leases what the heap asks for. */
static bool lease_for(struct heap *heap, struct model *model, struct test_random *random,
                      uint64_t n_bytes)
{
        uint64_t n_block_bytes;
        uint64_t n_expected = rounded(n_bytes, HEAP_BLOCK_UNIT);
        uint64_t n_growth = rounded(model_reserved(model) / 8, HEAP_BLOCK_UNIT);

        if (n_growth > 64 * MIB)
                n_growth = 64 * MIB;
        if (n_growth > n_expected)
                n_expected = n_growth;
        ck_assert_int_eq(heap_block_bytes(heap, n_bytes, &n_block_bytes), 0);
        ck_assert_uint_eq(n_block_bytes, n_expected);
        return add_block(heap, model, random, n_block_bytes);
}

static void alloc(struct heap *heap, struct model *model, struct test_random *random)
{
        uint64_t n_bytes = random_request(random), address = NONE;
        uint64_t n_rounded = rounded(n_bytes, HEAP_UNIT);
        struct fit fit = model_fit(model, n_rounded);

        if (model->live.n == N_LIVE_MAX)
                return;
        if (fit.address == NONE) {
                ck_assert_int_eq(heap_alloc(heap, n_bytes, &address), GPUMEM_E_REFUSED);
                ck_assert_uint_eq(address, NONE);
                if (!lease_for(heap, model, random, n_bytes))
                        return;
                fit = model_fit(model, n_rounded);
        }
        ck_assert_int_eq(heap_alloc(heap, n_bytes, &address), 0);
        ck_assert_uint_eq(address, fit.address);
        ranges_insert(&model->live, (struct range){.start = address,
                                                   .n_bytes = n_rounded,
                                                   .n_requested_bytes = n_bytes});
}

static void remove_block(struct heap *heap, struct model *model, unsigned index)
{
        struct heap_block *block = heap_block_at(heap, model->blocks.at[index].start);

        ck_assert_ptr_nonnull(block);
        ck_assert_uint_eq(block->start, model->blocks.at[index].start);
        ck_assert_uint_eq(block->n_bytes, model->blocks.at[index].n_bytes);
        ck_assert_ptr_eq(block->owner, model->blocks.at[index].owner);
        heap_remove_block(heap, block);
        ranges_remove(&model->blocks, index);
}

static void free_one(struct heap *heap, struct model *model, struct test_random *random)
{
        struct range range;
        struct heap_freed freed;
        unsigned index;
        int block;

        if (model->live.n == 0)
                return;
        index = (unsigned)test_random_below(random, model->live.n);
        range = model->live.at[index];
        ranges_remove(&model->live, index);
        block = ranges_find(&model->blocks, range.start);
        ck_assert_int_eq(heap_free(heap, range.start, &freed), 0);
        ck_assert_uint_eq(freed.n_requested_bytes, range.n_requested_bytes);
        ck_assert_uint_eq(freed.n_allocated_bytes, range.n_bytes);
        ck_assert_uint_eq(freed.block->start, model->blocks.at[block].start);
        model->last_freed = range.start;
        if (!block_is_empty(model, &model->blocks.at[block])) {
                ck_assert_ptr_null(freed.emptied_owner);
                return;
        }
        ck_assert_ptr_eq(freed.emptied_owner, model->blocks.at[block].owner);
        if (test_random_below(random, 2))
                remove_block(heap, model, (unsigned)block);
}

/* An address that somebody could free by mistake. */
static uint64_t random_address(const struct model *model, struct test_random *random)
{
        const struct range *live = NULL;

        if (model->live.n)
                live = &model->live.at[test_random_below(random, model->live.n)];
        switch (test_random_below(random, 5)) {
        case 0:
                return model->last_freed;
        case 1:
                return test_random_next(random);
        case 2:
                return live ? live->start + live->n_bytes : 0;
        case 3:
                return live ? live->start + test_random_below(random, live->n_bytes) : 1;
        default:
                return ARENA_START + test_random_below(random, ARENA_N_GRANULES) * HEAP_BLOCK_UNIT;
        }
}

static void look_up(struct heap *heap, struct model *model, struct test_random *random)
{
        uint64_t address = random_address(model, random);
        int index = ranges_find(&model->live, address);
        struct heap_allocation allocation;
        struct heap_freed freed;

        if (index < 0) {
                ck_assert_int_eq(heap_find(heap, address, &allocation), GPUMEM_E_NOT_OURS);
                ck_assert_int_eq(heap_free(heap, address, &freed), GPUMEM_E_NOT_OURS);
                return;
        }
        ck_assert_int_eq(heap_find(heap, address, &allocation), 0);
        ck_assert_uint_eq(allocation.start, model->live.at[index].start);
        ck_assert_uint_eq(allocation.n_allocated_bytes, model->live.at[index].n_bytes);
        ck_assert_uint_eq(allocation.n_requested_bytes, model->live.at[index].n_requested_bytes);
        ck_assert(allocation.block == heap_block_at(heap, address));
        if (address != allocation.start)
                ck_assert_int_eq(heap_free(heap, address, &freed), GPUMEM_E_NOT_OURS);
}

static void remove_empty_block(struct heap *heap, struct model *model, struct test_random *random)
{
        unsigned index;

        if (model->blocks.n == 0)
                return;
        index = (unsigned)test_random_below(random, model->blocks.n);
        if (block_is_empty(model, &model->blocks.at[index]))
                remove_block(heap, model, index);
}

/* Phases of growth and of shrinking, so that both a full heap and an empty one are met. */
static void step_once(struct heap *heap, struct model *model, struct test_random *random,
                      uint64_t step)
{
        uint64_t n_allocs_of_80 = step / PHASE_STEPS % 2 ? 30 : 50;
        uint64_t choice = test_random_below(random, 100);

        if (choice < n_allocs_of_80)
                alloc(heap, model, random);
        else if (choice < 80)
                free_one(heap, model, random);
        else if (choice < 92)
                look_up(heap, model, random);
        else if (choice < 96)
                (void)add_block(heap, model, random,
                                (1 + test_random_below(random, 48)) * HEAP_BLOCK_UNIT);
        else
                remove_empty_block(heap, model, random);
}

START_TEST(a_heap_does_what_the_model_foretells)
{
        struct test_random random = test_random_begin();
        struct model model = {.last_freed = 0};
        struct heap heap;

        heap_init(&heap);
        for (uint64_t step = 0, n_steps = test_n_steps(); step < n_steps; step++) {
                step_once(&heap, &model, &random, step);
                compare(&heap, &model);
        }
        while (model.live.n) {
                free_one(&heap, &model, &random);
                compare(&heap, &model);
        }
        while (model.blocks.n)
                remove_block(&heap, &model, 0);
        compare(&heap, &model);
        heap_deinit(&heap);
}
END_TEST

int main(void)
{
        Suite *suite = suite_create("heap_model");
        TCase *tcase = tcase_create("heap_model");

        suite_add_tcase(suite, tcase);
        tcase_set_timeout(tcase, 0);
        tcase_add_test(tcase, a_heap_does_what_the_model_foretells);
        return run_suite(suite);
}
