/* Blocks for a heap whose runs are kept apart: each is a run of its own. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "client/placement.h"
#include "gpumem.h"
#include "tests/suite.h"
#include "tests/unit/heap_world.h"

static struct heap_world world;
static struct heap heap;

static void begin(void)
{
        world_init(&world, 128 * GIB);
        heap_init(&heap, world.arena, HEAP_SPLIT);
}

static void end(void)
{
        heap_deinit(&heap);
        world_deinit(&world);
}

/* What the heap has, what is asked for, and the block that is leased when enough is spare. */
static const struct {
        uint64_t n_reserved_bytes, n_bytes, n_block_bytes;
} rows[] = {
        {0, 1, 2 * MIB},          {0, 2 * MIB, 2 * MIB},           {0, 2 * MIB + 1, 4 * MIB},
        {0, 64 * MIB, 64 * MIB},  {0, 64 * MIB + 1, 66 * MIB},     {16 * MIB, 1, 2 * MIB},
        {32 * MIB, 1, 4 * MIB},   {32 * MIB, 5 * MIB, 6 * MIB},    {512 * MIB, 1, 64 * MIB},
        {100 * GIB, 1, 64 * MIB}, {100 * GIB, 65 * MIB, 66 * MIB}, {100 * GIB, GIB, GIB},
};

START_TEST(blocks_grow_with_the_heap)
{
        uint64_t n_reserved = rows[_i].n_reserved_bytes;
        struct placement plan;

        begin();
        if (n_reserved)
                (void)world_add(&world, &heap, 128 * GIB - n_reserved, n_reserved);
        ck_assert_int_eq(placement_plan(&heap, rows[_i].n_bytes, TIB, GIB, &plan), 0);
        ck_assert_uint_eq(plan.n_parts, 1);
        ck_assert_uint_eq(plan.n_bytes, rows[_i].n_block_bytes);
        ck_assert_uint_eq(plan.parts[0].n_bytes, rows[_i].n_block_bytes);
        ck_assert_uint_eq(plan.end - plan.start, rows[_i].n_block_bytes);
        end();
}
END_TEST

START_TEST(without_spare_bytes_a_block_is_what_is_asked_for)
{
        struct placement plan;

        begin();
        (void)world_add(&world, &heap, 64 * GIB, 64 * GIB);
        ck_assert_int_eq(placement_plan(&heap, 3 * MIB, TIB, 0, &plan), 0);
        ck_assert_uint_eq(plan.n_bytes, 4 * MIB);
        end();
}
END_TEST

/* Next to what is there, and yet a block of the whole request. */
START_TEST(holes_are_not_added_to)
{
        struct placement plan;

        begin();
        (void)world_add(&world, &heap, 128 * GIB - 8 * MIB, 8 * MIB);
        ck_assert_int_eq(placement_plan(&heap, 10 * MIB, TIB, 0, &plan), 0);
        ck_assert_uint_eq(plan.n_parts, 1);
        ck_assert_uint_eq(plan.parts[0].start, WORLD_START + 128 * GIB - 18 * MIB);
        ck_assert_uint_eq(plan.parts[0].n_bytes, 10 * MIB);
        (void)world_add(&world, &heap, 128 * GIB - 18 * MIB, 10 * MIB);
        ck_assert_uint_eq(world_alloc(&heap, 10 * MIB), 128 * GIB - 18 * MIB);
        end();
}
END_TEST

START_TEST(what_no_gap_holds_has_no_place)
{
        struct placement plan;

        begin();
        (void)world_add(&world, &heap, 0, 64 * GIB);
        ck_assert_int_eq(placement_plan(&heap, 64 * GIB + 1, TIB, 0, &plan), -ENOMEM);
        ck_assert_int_eq(placement_plan(&heap, UINT64_MAX, TIB, 0, &plan), GPUMEM_E_TOO_LARGE);
        ck_assert_int_eq(placement_plan(&heap, 64 * GIB, TIB, GIB, &plan), 0);
        ck_assert_uint_eq(plan.n_bytes, 64 * GIB);
        end();
}
END_TEST

int main(void)
{
        Suite *suite = suite_create("placement_split");
        TCase *tcase = tcase_create("placement_split");

        suite_add_tcase(suite, tcase);
        tcase_set_timeout(tcase, 0);
        tcase_add_loop_test(tcase, blocks_grow_with_the_heap, 0, (int)ARRAY_SIZE(rows));
        tcase_add_test(tcase, without_spare_bytes_a_block_is_what_is_asked_for);
        tcase_add_test(tcase, holes_are_not_added_to);
        tcase_add_test(tcase, what_no_gap_holds_has_no_place);
        return run_suite(suite);
}
