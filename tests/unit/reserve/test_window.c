/* SPDX-License-Identifier: Apache-2.0 */
/* The place that costs least, compared with the cheapest of all places, in small worlds at random. */
#include <stdlib.h>

#include "base/err.h"
#include "client/reserve/window.h"
#include "tests/random.h"
#include "tests/suite.h"
#include "tests/unit/heap/heap_world.h"

#define UNIT     HEAP_BLOCK_UNIT
#define N_UNITS  48
#define N_LOOK   7
#define N_WORLDS 4000

/* What a unit of the world is. */
enum what { NOTHING, OWN_FREE, OWN_TAKEN, OTHERS_IDLE, OTHERS_TAKEN, N_WHATS };

static struct heap_world world;
static struct heap heap, other;
static enum what what[N_UNITS + 1];
static uint64_t block_of[N_UNITS + 1]; /* the first unit of the block there */
static struct test_random random_numbers;

static uint64_t below(uint64_t n)
{
        return test_random_below(&random_numbers, n);
}

static bool is_others(enum what it)
{
        return it == OTHERS_IDLE || it == OTHERS_TAKEN;
}

/* Free memory is freed again: the first hole of a run is not at its start otherwise. */
static void add_own(uint64_t unit, uint64_t n_units)
{
        bool kept[4];

        (void)world_add(&world, &heap, unit * UNIT, n_units * UNIT);
        for (uint64_t i = 0; i < n_units; i++)
                (void)world_alloc(&heap, UNIT);
        for (uint64_t i = 0; i < n_units; i++) {
                kept[i] = below(2);
                what[unit + i] = kept[i] ? OWN_TAKEN : OWN_FREE;
        }
}

static void add_others(uint64_t unit, uint64_t n_units)
{
        struct heap_block *block = world_add(&world, &other, unit * UNIT, n_units * UNIT);
        bool is_idle = below(2);

        block->n_look = is_idle ? N_LOOK : N_LOOK - 1;
        for (uint64_t i = 0; i < n_units; i++)
                what[unit + i] = is_idle ? OTHERS_IDLE : OTHERS_TAKEN;
}

static void make_world(void)
{
        uint64_t unit = 0;

        world_init(&world, N_UNITS * UNIT);
        heap_init(&heap, world.arena, HEAP_JOINED);
        heap_init(&other, world.arena, HEAP_SPLIT);
        for (unsigned i = 0; i <= N_UNITS; i++)
                what[i] = i < N_UNITS ? NOTHING : OTHERS_TAKEN;
        while (unit < N_UNITS) {
                uint64_t n_units = 1 + below(4), kind = below(3);

                n_units = unit + n_units > N_UNITS ? N_UNITS - unit : n_units;
                for (uint64_t i = 0; i < n_units; i++)
                        block_of[unit + i] = unit;
                if (kind == 0)
                        add_own(unit, n_units);
                else if (kind == 1)
                        add_others(unit, n_units);
                unit += n_units;
        }
        for (unit = 0; unit < N_UNITS; unit++) {
                if (what[unit] == OWN_FREE)
                        (void)world_free(&heap, unit * UNIT);
        }
}

static void end_world(void)
{
        heap_deinit(&heap);
        heap_deinit(&other);
        world_deinit(&world);
}

static bool is_own(uint64_t unit)
{
        return unit < N_UNITS && (what[unit] == OWN_FREE || what[unit] == OWN_TAKEN);
}

/* What a place would cost; UINT64_MAX: it is none. A block of others is taken whole. */
static uint64_t cost_of(uint64_t first, uint64_t n_units)
{
        uint64_t n_missing = 0, n_gaps = 0, n_others = 0;

        for (uint64_t i = first; i < first + n_units; i++) {
                if (what[i] == OWN_TAKEN || what[i] == OTHERS_TAKEN)
                        return UINT64_MAX;
                n_missing += what[i] == NOTHING;
                n_gaps += what[i] == NOTHING && (i == first || what[i - 1] != NOTHING);
                n_others += what[i] == OTHERS_IDLE;
        }
        if (what[first] == OTHERS_IDLE && block_of[first] != first)
                return UINT64_MAX;
        for (uint64_t i = first + n_units; is_others(what[i - 1]) && i < N_UNITS &&
                                           is_others(what[i]) && block_of[i] == block_of[i - 1];
             i++)
                n_others++;
        return n_gaps > WINDOW_GAPS_MAX
                       ? UINT64_MAX
                       : n_missing * UNIT + n_gaps * (UNIT / 2) + n_others * UNIT / 64;
}

/* It has memory, or touches a run of the heap's. */
static bool is_place(uint64_t first, uint64_t n_units)
{
        for (uint64_t i = first; i < first + n_units; i++) {
                if (what[i] != NOTHING)
                        return true;
        }
        return (first && is_own(first - 1)) || is_own(first + n_units);
}

static uint64_t cheapest(uint64_t n_units)
{
        uint64_t n_best = UINT64_MAX;

        for (uint64_t first = 0; first + n_units <= N_UNITS; first++) {
                uint64_t n_cost = is_place(first, n_units) ? cost_of(first, n_units) : UINT64_MAX;

                if (n_cost < n_best)
                        n_best = n_cost;
        }
        return n_best;
}

static uint64_t longest_hole(void)
{
        return extents_largest_free(&heap.extents) * HEAP_UNIT / UNIT;
}

static void look_for(uint64_t n_units)
{
        const struct arena_range all = {0, UINT64_MAX};
        uint64_t n_cheapest = cheapest(n_units), first, end, n_cost;
        struct window window;

        if (!window_find(&heap, N_LOOK, &all, n_units * UNIT, &window)) {
                ck_assert_uint_eq(n_cheapest, UINT64_MAX);
                return;
        }
        first = (window.start - WORLD_START) / UNIT;
        end = (window.end - WORLD_START + UNIT - 1) / UNIT;
        n_cost = cost_of(first, end - first);
        ck_assert_uint_ge(window.end - window.start, n_units * UNIT);
        ck_assert_uint_eq(n_cost, n_cheapest);
        /* No block of others is cut. */
        ck_assert(!is_others(what[end - 1]) || !is_others(what[end]) ||
                  block_of[end - 1] != block_of[end]);
        ck_assert_uint_eq(window.n_missing * 1 + window.n_gaps * (UNIT / 2),
                          n_cost / (UNIT / 2) * (UNIT / 2));
}

TEST(the_cheapest_place_is_found)
{
        random_numbers = test_random_begin();
        for (unsigned i = 0; i < N_WORLDS; i++) {
                make_world();
                look_for(longest_hole() + 1 + below(12));
                end_world();
        }
}

TESTS_MAIN("window", .limit_s = UNLIMITED)
