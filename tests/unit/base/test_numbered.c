/* SPDX-License-Identifier: Apache-2.0 */
/* numbered: what a walk in parts meets while objects come and go. */
#include "base/numbered.h"

#include <limits.h>
#include <string.h>

#include "base/err.h"
#include "tests/random.h"
#include "tests/suite.h"

#define N 300

static struct numbered all;
static struct object {
        uint32_t number;
        bool is_in, was_in_all_the_while;
        unsigned n_met;
} objects[N];

static void put(struct object *object)
{
        ck_assert_int_eq(numbered_add(&all, object, &object->number), 0);
        object->is_in = true;
}

static void take_out(struct object *object)
{
        numbered_remove(&all, object->number);
        object->is_in = object->was_in_all_the_while = false;
}

static void start(void)
{
        all = NUMBERED_NULL;
        memset(objects, 0, sizeof(objects));
}

static void stop(void)
{
        for (unsigned i = 0; i < N; i++) {
                if (objects[i].is_in)
                        take_out(&objects[i]);
        }
        numbered_deinit(&all);
}

static unsigned meet(struct numbered_walk *walk)
{
        struct object *object;
        unsigned n = 0;

        for (; (object = numbered_next(&all, walk)); n++) {
                ck_assert(object->is_in);
                object->n_met++;
        }
        return n;
}

TEST(a_part_meets_no_more_than_it_may)
{
        struct numbered_walk walk = {.next = 0};

        for (unsigned i = 0; i < N; i++)
                put(&objects[i]);
        for (unsigned i = 0; i < N / PART_ITEMS; i++) {
                numbered_go_on(&walk, PART_ITEMS);
                ck_assert_uint_eq(meet(&walk), PART_ITEMS);
                ck_assert(!numbered_is_over(&all, &walk));
        }
        numbered_go_on(&walk, PART_ITEMS);
        ck_assert_uint_eq(meet(&walk), N % PART_ITEMS);
        ck_assert(numbered_is_over(&all, &walk));
        for (unsigned i = 0; i < N; i++)
                ck_assert_uint_eq(objects[i].n_met, 1);
}

TEST(a_part_looks_at_few_places_that_are_free)
{
        struct numbered_walk walk = {.next = 0};

        for (unsigned i = 0; i < N; i++)
                put(&objects[i]);
        for (unsigned i = 0; i < N - 1; i++)
                take_out(&objects[i]);
        numbered_go_on(&walk, 1);
        ck_assert_uint_eq(meet(&walk), 0);
        ck_assert_uint_eq(walk.next, PART_PLACES / PART_ITEMS);
        ck_assert(!numbered_is_over(&all, &walk));
        numbered_go_on(&walk, UINT_MAX);
        ck_assert_uint_eq(meet(&walk), 1);
        ck_assert(numbered_is_over(&all, &walk));
}

TEST(what_is_there_all_the_while_is_met_once)
{
        struct test_random numbers = test_random_begin();

        for (unsigned round = 0; round < 200; round++) {
                struct numbered_walk walk = {.next = 0};

                for (unsigned i = 0; i < N; i++) {
                        objects[i].n_met = 0;
                        objects[i].was_in_all_the_while = objects[i].is_in;
                }
                while (!numbered_is_over(&all, &walk)) {
                        numbered_go_on(&walk, 1 + (unsigned)test_random_below(&numbers, 8));
                        (void)meet(&walk);
                        for (unsigned i = 0; i < 4; i++) {
                                struct object *object = &objects[test_random_below(&numbers, N)];

                                if (object->is_in)
                                        take_out(object);
                                else
                                        put(object);
                        }
                }
                for (unsigned i = 0; i < N; i++)
                        ck_assert(!objects[i].was_in_all_the_while || objects[i].n_met == 1);
                for (unsigned i = 0; i < 20; i++) {
                        struct object *object = &objects[test_random_below(&numbers, N)];

                        if (!object->is_in)
                                put(object);
                }
        }
}

/* Each takes as long as three, or as one more than a part has: a part meets one at least. */
TEST(what_takes_long_leaves_less_to_its_part)
{
        struct numbered_walk walk = {.next = 0};
        unsigned n;

        for (unsigned i = 0; i < N; i++)
                put(&objects[i]);
        numbered_go_on(&walk, 30);
        for (n = 0; numbered_next(&all, &walk); n++)
                numbered_spend(&walk, 2);
        ck_assert_uint_eq(n, 10);
        numbered_go_on(&walk, 30);
        for (n = 0; numbered_next(&all, &walk); n++)
                numbered_spend(&walk, UINT_MAX);
        ck_assert_uint_eq(n, 1);
        ck_assert_uint_eq(walk.next, 11);
}

TESTS_MAIN("numbered", .start = start, .stop = stop)
