/* When the frees of a heap are to look. */
#include "client/looks.h"
#include "tests/suite.h"
#include "tests/unit/heap_world.h"

static struct heap_world world;
static struct heap heap;
static struct looks looks;
static struct space space;

static void start(void)
{
        world_init(&world, 64 * MIB);
        heap_init(&heap, world.arena, HEAP_JOINED);
        (void)world_add(&world, &heap, 0, 48 * MIB);
        space_init(&space);
        space.n_heaps = 2;
        looks_init(&looks);
}

static void stop(void)
{
        heap_deinit(&heap);
        world_deinit(&world);
}

/* Frees of so many bytes until it is time. */
static unsigned count_frees(uint64_t n_bytes)
{
        unsigned n = 0;
        bool is_time;

        do {
                heap.n_freed_bytes += n_bytes;
                is_time = looks_count_free(&looks, &heap);
                n++;
        } while (!is_time);
        return n;
}

START_TEST(frees_look_once_in_so_many)
{
        ck_assert_uint_eq(count_frees(4 * MIB), LOOKS_FREES);
        ck_assert_uint_eq(count_frees(4 * MIB), LOOKS_FREES);
}
END_TEST

START_TEST(they_look_sooner_when_more_is_held)
{
        looks_done(&looks, &space, &heap, 1);
        ck_assert_uint_eq(count_frees(1), LOOKS_FREES_SOON);
        looks_done(&looks, &space, &heap, 0);
        ck_assert_uint_eq(count_frees(1), LOOKS_FREES);
}
END_TEST

START_TEST(who_is_wanted_looks_at_once_and_then_by_bytes)
{
        looks_want(&looks);
        for (unsigned i = 0; i < LOOKS_WANTED; i++) {
                ck_assert_uint_eq(count_frees(MIB), i ? 3 : 1);
                looks_done(&looks, &space, &heap, 0);
        }
        ck_assert_uint_eq(count_frees(MIB), LOOKS_FREES);
}
END_TEST

START_TEST(in_small_heaps_it_is_a_block)
{
        heap.n_reserved_bytes = 0;
        looks_want(&looks);
        looks_done(&looks, &space, &heap, 0);
        ck_assert_uint_eq(count_frees(MIB), 2);
        heap.n_reserved_bytes = 48 * MIB;
}
END_TEST

START_TEST(a_second_want_lets_a_look_come_when_it_was_to_come)
{
        looks_want(&looks);
        ck_assert_uint_eq(count_frees(MIB), 1);
        looks_done(&looks, &space, &heap, 0);
        looks_want(&looks);
        ck_assert_uint_eq(looks.n_wanted, LOOKS_WANTED);
        ck_assert_uint_eq(count_frees(MIB), 3);
}
END_TEST

START_TEST(nobody_is_there_who_wants_anything)
{
        space.n_heaps = 1;
        looks_want(&looks);
        ck_assert_uint_eq(count_frees(MIB), 1);
        looks_done(&looks, &space, &heap, 0);
        ck_assert_uint_eq(count_frees(MIB), LOOKS_FREES);
}
END_TEST

START_TEST(the_last_free_looks_where_there_are_others)
{
        uint64_t addresses[2];

        for (unsigned i = 0; i < 2; i++)
                addresses[i] = world_alloc(&heap, 4096);
        looks_meet(&looks);
        (void)world_free(&heap, addresses[0]);
        ck_assert(!looks_count_free(&looks, &heap));
        ck_assert(!looks_ask(&looks, &heap));
        (void)world_free(&heap, addresses[1]);
        ck_assert(looks_count_free(&looks, &heap));
        ck_assert(looks_ask(&looks, &heap));
}
END_TEST

int main(void)
{
        Suite *suite = suite_create("looks");
        TCase *tests = tcase_create("looks");

        tcase_add_checked_fixture(tests, start, stop);
        tcase_add_test(tests, frees_look_once_in_so_many);
        tcase_add_test(tests, they_look_sooner_when_more_is_held);
        tcase_add_test(tests, who_is_wanted_looks_at_once_and_then_by_bytes);
        tcase_add_test(tests, in_small_heaps_it_is_a_block);
        tcase_add_test(tests, a_second_want_lets_a_look_come_when_it_was_to_come);
        tcase_add_test(tests, nobody_is_there_who_wants_anything);
        tcase_add_test(tests, the_last_free_looks_where_there_are_others);
        suite_add_tcase(suite, tests);
        return run_suite(suite);
}
