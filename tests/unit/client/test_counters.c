/* SPDX-License-Identifier: Apache-2.0 */
/* Counters: which thread has which, their sums, and the peaks of the sums. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/size.h"
#include "client/blocks/counters.h"
#include "tests/random.h"
#include "tests/suite.h"

#define N_LIVE_MAX 500

static struct counters counters;

static void begin(void)
{
        counters_init(&counters);
}

static void end(void)
{
        counters_deinit(&counters);
}

static void come(struct counter *counter, uint64_t n_requested, uint64_t n_allocated)
{
        counters_count(&counters, counter, COUNTER_HIT, n_requested, n_allocated);
}

static void go(struct counter *counter, uint64_t n_requested, uint64_t n_allocated)
{
        counters_discount(counter, n_requested, n_allocated);
}

static void expect(uint64_t n_requested, uint64_t n_allocated)
{
        struct board_sums sums = board_sum(counters.board);

        ck_assert_uint_eq(sums.requested, n_requested);
        ck_assert_uint_eq(sums.allocated, n_allocated);
}

static void expect_peaks(uint64_t n_requested, uint64_t n_allocated)
{
        ck_assert_uint_eq(counters.board->requested_peak, n_requested);
        ck_assert_uint_eq(counters.board->allocated_peak, n_allocated);
}

TEST(hits_and_misses_are_told_apart)
{
        struct counter *counter = &counters.counters[0];
        struct board_sums sums;

        counters_count(&counters, counter, COUNTER_MISS, 100, 512);
        counters_count(&counters, counter, COUNTER_HIT, 200, 512);
        counters_count(&counters, &counters.counters[1], COUNTER_HIT, 300, 512);
        counters_discount(counter, 100, 512);
        sums = board_sum(counters.board);
        ck_assert_uint_eq(sums.hits, 2);
        ck_assert_uint_eq(sums.misses, 1);
        expect(500, 1024);
        expect_peaks(600, 1536);
}

/* What one thread frees that another one has allocated. */
TEST(a_counter_may_be_below_0)
{
        come(&counters.counters[0], 100, 512);
        go(&counters.counters[1], 100, 512);
        expect(0, 0);
        come(&counters.counters[1], 200, 1024);
        expect(200, 1024);
        expect_peaks(200, 1024);
        go(&counters.counters[2], 300, 1536);
        expect(0, 0);
}

enum { N_THREADS = 3 * BOARD_LANES };

static pthread_barrier_t all_have_one;
static _Atomic unsigned n_of_counter[BOARD_LANES];

static void *count_own(void *argument)
{
        (void)argument;
        for (unsigned i = 0; i < 1000; i++) {
                struct counter *counter = counters_mine(&counters);

                come(counter, 1, 512);
                if (i == 0)
                        n_of_counter[counter - counters.counters]++;
                if (i == 0)
                        (void)pthread_barrier_wait(&all_have_one);
        }
        return NULL;
}

/* The first ones have a counter each, and the others share what is left. */
TEST(threads_lose_no_count)
{
        pthread_t threads[N_THREADS];

        ck_assert_int_eq(pthread_barrier_init(&all_have_one, NULL, N_THREADS), 0);
        for (unsigned i = 0; i < N_THREADS; i++)
                ck_assert_int_eq(pthread_create(&threads[i], NULL, count_own, NULL), 0);
        for (unsigned i = 0; i < N_THREADS; i++)
                ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        (void)pthread_barrier_destroy(&all_have_one);
        expect(1000 * N_THREADS, 512 * 1000 * N_THREADS);
        for (unsigned i = 0; i < COUNTERS_OWN; i++)
                ck_assert_uint_eq(n_of_counter[i], 1);
}

/* A peak from before, and then all counters rise to it and beyond at the same time: in one of the two
 * numbers only, so that the other does not make anybody look. */
static const struct {
        uint64_t n_requested, n_allocated;
} rise_rows[] = {{100, 0}, {0, 100}};

TEST(lanes_that_rise_together_find_the_peak, .to = ARRAY_SIZE(rise_rows))
{
        uint64_t n_requested = rise_rows[_i].n_requested, n_allocated = rise_rows[_i].n_allocated;
        struct counter *given = counters.counters;

        come(&given[0], 80 * n_requested, 80 * n_allocated);
        go(&given[0], 80 * n_requested, 80 * n_allocated);
        for (uint64_t n = 1; n <= 100; n++) {
                uint64_t n_peak = n < 80 ? 80 : n;

                come(&given[n % BOARD_LANES], n_requested, n_allocated);
                expect_peaks(n_peak * n_requested, n_peak * n_allocated);
        }
}

struct counted {
        uint64_t n_requested, n_allocated;
};

struct naive {
        struct test_random random;
        unsigned n_lanes;
        struct counted live[N_LIVE_MAX];
        unsigned n_live;
        uint64_t n_requested, n_allocated, n_requested_peak, n_allocated_peak;
};

static void raise(uint64_t *peak, uint64_t n)
{
        if (n > *peak)
                *peak = n;
}

static struct counter *any_counter(struct naive *naive)
{
        return &counters.counters[test_random_below(&naive->random, naive->n_lanes)];
}

static void naive_come(struct naive *naive)
{
        struct counted *counted = &naive->live[naive->n_live];
        uint64_t n_bytes = test_random_size(&naive->random, GIB);

        if (naive->n_live == N_LIVE_MAX)
                return;
        naive->n_live++;
        *counted = (struct counted){.n_requested = test_random_size(&naive->random, n_bytes),
                                    .n_allocated = n_bytes};
        naive->n_requested += counted->n_requested;
        naive->n_allocated += counted->n_allocated;
        raise(&naive->n_requested_peak, naive->n_requested);
        raise(&naive->n_allocated_peak, naive->n_allocated);
        come(any_counter(naive), counted->n_requested, counted->n_allocated);
}

static void naive_go(struct naive *naive)
{
        struct counted *counted;

        if (!naive->n_live)
                return;
        counted = &naive->live[test_random_below(&naive->random, naive->n_live)];
        naive->n_requested -= counted->n_requested;
        naive->n_allocated -= counted->n_allocated;
        go(any_counter(naive), counted->n_requested, counted->n_allocated);
        *counted = naive->live[--naive->n_live];
}

static void naive_reset(struct naive *naive)
{
        naive->n_requested_peak = naive->n_requested;
        naive->n_allocated_peak = naive->n_allocated;
        counters_reset_peaks(&counters);
}

static bool is_right(const struct naive *naive)
{
        struct board_sums sums = board_sum(counters.board);

        return sums.requested == naive->n_requested && sums.allocated == naive->n_allocated &&
               counters.board->requested_peak == naive->n_requested_peak &&
               counters.board->allocated_peak == naive->n_allocated_peak;
}

/* One thread, as many as have a counter each, and more; each frees what any has allocated. Now and then on another board. Few bytes of some are requested: the two peaks come at different times. */
TEST(sums_and_peaks_are_exact_at_each_step, .to = 4)
{
        static const unsigned n_lanes[] = {1, 2, COUNTERS_OWN, BOARD_LANES};
        static struct board_pool boards[2];
        static struct naive naive;

        naive = (struct naive){.random = test_random_begin(), .n_lanes = n_lanes[_i]};
        for (uint64_t step = 0, n_steps = test_n_steps(); step < n_steps; step++) {
                uint64_t choice = test_random_below(&naive.random, 1000);

                if (choice < (step / 2000 % 2 ? 300 : 600))
                        naive_come(&naive);
                else if (choice < 996)
                        naive_go(&naive);
                else if (choice < 997)
                        naive_reset(&naive);
                else
                        counters_move(&counters, choice < 999 ? &boards[choice - 997] : NULL);
                if (!is_right(&naive))
                        ck_abort_msg("step %" PRIu64, step);
        }
}

TEST(a_new_board_says_what_the_old_one_said)
{
        static struct board_pool board;
        struct counter *counter = &counters.counters[0];

        come(counter, 1000, 1024);
        go(counter, 1000, 1024);
        come(counter, 100, 512);
        counters_move(&counters, &board);
        ck_assert_ptr_eq(counters.board, &board);
        expect(100, 512);
        expect_peaks(1000, 1024);
        ck_assert_uint_eq(board_sum(&board).hits, 2);
        come(counter, 1000, 1024);
        expect_peaks(1100, 1536);
        counters_move(&counters, &board);
        expect(1100, 1536);
        counters_move(&counters, NULL);
        go(counter, 1000, 1024);
        expect(100, 512);
        expect_peaks(1100, 1536);
        ck_assert_uint_eq(board_sum(&board).requested, 1100);
}

TESTS_MAIN("counters", .limit_s = UNLIMITED, .start = begin, .stop = end)
