/* SPDX-License-Identifier: Apache-2.0 */
/* The pool's clock stands while any thread leases or returns blocks, whatever other threads read meanwhile. */
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "client/blocks/pool_state.h"
#include "tests/suite.h"

#define PASS_US 2000

static struct pool pool;

static void begin(void)
{
        memset(&pool, 0, sizeof(pool));
        pool.heap_set.budget = BUDGET_NULL;
        (void)pthread_mutex_init(&pool.lock, NULL);
}

static void end(void)
{
        (void)pthread_mutex_destroy(&pool.lock);
}

/* Returns how far the system's clock went. */
static uint64_t let_pass(void)
{
        uint64_t since_us = clock_now_us();

        while (clock_now_us() < since_us + PASS_US)
                (void)nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        return clock_now_us() - since_us;
}

TEST(it_stands_until_the_last_thread_is_done)
{
        uint64_t at_us;

        pool_stop_clock(&pool);
        at_us = pool_now_us(&pool);
        (void)let_pass();
        ck_assert_uint_eq(pool_now_us(&pool), at_us);
        pool_stop_clock(&pool);
        pool_start_clock(&pool);
        (void)let_pass();
        ck_assert_uint_eq(pool_now_us(&pool), at_us);
        pool_start_clock(&pool);
        ck_assert_uint_lt(pool_now_us(&pool), at_us + PASS_US);
}

TEST(it_goes_on_where_it_stood)
{
        uint64_t before_us = pool_now_us(&pool), passed_us, stood_us, after_us;

        passed_us = let_pass();
        pool_stop_clock(&pool);
        stood_us = let_pass();
        pool_start_clock(&pool);
        passed_us += let_pass();
        after_us = pool_now_us(&pool);
        ck_assert_uint_ge(after_us - before_us, passed_us);
        ck_assert_uint_ge(clock_now_us() - after_us,
                          stood_us); /* the system's clock is read later */
}

/* As budget_see is called by threads that allocate while another one waits for its lease. */
TEST(threads_that_read_it_do_not_make_it_go)
{
        pool_stop_clock(&pool);
        budget_see(&pool.heap_set.budget, GIB, pool_now_us(&pool));
        for (unsigned i = 0; i < 10; i++) {
                (void)let_pass();
                budget_see(&pool.heap_set.budget, 0, pool_now_us(&pool));
        }
        pool_start_clock(&pool);
        budget_see(&pool.heap_set.budget, 0, pool_now_us(&pool));
        ck_assert_uint_gt(pool.heap_set.budget.n_peak_bytes, GIB - GIB / 16);
}

TESTS_MAIN("pool_clock", .start = begin, .stop = end)
