/* SPDX-License-Identifier: Apache-2.0 */
/* Tags of threads that work at the same time. The thread sanitizer looks at them, too. */
#include "client/watch/tags.h"

#include "tests/suite.h"

#define N_THREADS 4
#define N_ROUNDS  1000

static const char *const names[N_THREADS] = {"one", "two", "three", "four"};

static struct tags tags;

static void start(void)
{
        tags_init(&tags, 7);
}

static void stop(void)
{
        tags_deinit(&tags);
}

/* The address of a name, and those behind it, stand for memory. */
static void *count_own(void *argument)
{
        const char *const *name = argument;
        const void *pointer = argument;

        for (unsigned i = 0; i < N_ROUNDS; i++) {
                ck_assert_int_eq(tags_set(&tags, *name), 0);
                tags_alloc(&tags, pointer, 10);
                ck_assert_int_eq(tags_set(&tags, NULL), 0);
                tags_alloc(&tags, &tags, 10);
                tags_end_free(&tags, tags_begin_free(&tags, pointer), 0);
        }
        return NULL;
}

TEST(threads_count_under_their_tags)
{
        struct gpumem_tag_stats stats;
        pthread_t threads[N_THREADS];

        for (unsigned i = 0; i < N_THREADS; i++)
                ck_assert_int_eq(pthread_create(&threads[i], NULL, count_own, (void *)&names[i]),
                                 0);
        for (unsigned i = 0; i < N_THREADS; i++)
                ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        for (unsigned i = 0; i < N_THREADS; i++) {
                ck_assert_int_eq(tags_get(&tags, names[i], &stats), 0);
                ck_assert_uint_eq(stats.n_allocations, N_ROUNDS);
                ck_assert_uint_eq(stats.n_frees, N_ROUNDS);
                ck_assert_uint_eq(stats.n_live, 0);
                ck_assert_uint_eq(stats.n_requested_peak_bytes, 10);
        }
}

/* Another client's tag of the same thread is not this one's. */
TEST(a_tag_is_of_one_client)
{
        struct gpumem_tag_stats stats;
        struct tags other;

        tags_init(&other, 9);
        ck_assert_int_eq(tags_set(&other, "other"), 0);
        tags_alloc(&tags, &other, 10);
        tags_alloc(&other, &other, 10);
        ck_assert_int_eq(tags_set(&tags, NULL), 0);
        tags_alloc(&other, &tags, 10);
        ck_assert_int_eq(tags_get(&tags, "other", &stats), GPUMEM_E_NO_TAG);
        ck_assert_int_eq(tags_get(&other, "other", &stats), 0);
        ck_assert_uint_eq(stats.n_allocations, 2);
        tags_deinit(&other);
}

TESTS_MAIN("tags", .start = start, .stop = stop)
