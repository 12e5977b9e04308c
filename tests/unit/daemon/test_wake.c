/* SPDX-License-Identifier: Apache-2.0 */
/* Wakes: what threads have done is found on the loop. */
#include "daemon/server/core/wake.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/err.h"
#include "tests/suite.h"

#define N_THREADS 4
#define N_EACH    20000u

static uv_loop_t loop;
static struct wake wake;
static unsigned n_calls;
static atomic_uint n_done;
static unsigned n_found; /* of n_done, by the last call */

static void note(struct wake *called)
{
        ck_assert_ptr_eq(called, &wake);
        n_calls++;
        n_found = n_done;
}

static void begin(void)
{
        n_calls = n_found = 0;
        n_done = 0;
        ck_assert_int_eq(uv_loop_init(&loop), 0);
        ck_assert_int_eq(wake_open(&wake, &loop, note), 0);
}

static void end(void)
{
        uv_close((uv_handle_t *)&wake.poll, NULL);
        ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
        wake_deinit(&wake);
        ck_assert_int_eq(wake.fd, -1);
        ck_assert_int_eq(uv_loop_close(&loop), 0);
}

TEST(many_sends_are_one_call)
{
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        ck_assert_uint_eq(n_calls, 0);
        for (unsigned i = 0; i < 3; i++)
                wake_send(&wake);
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        ck_assert_uint_eq(n_calls, 1);
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        ck_assert_uint_eq(n_calls, 1);
        wake_send(&wake);
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        ck_assert_uint_eq(n_calls, 2);
}

static void *work(void *argument)
{
        for (unsigned i = 0; i < N_EACH; i++) {
                n_done++;
                wake_send(argument);
        }
        return NULL;
}

/* The loop would sleep for ever after a send that is lost. */
TEST(no_send_is_lost)
{
        pthread_t threads[N_THREADS];

        for (unsigned i = 0; i < N_THREADS; i++)
                ck_assert_int_eq(pthread_create(&threads[i], NULL, work, &wake), 0);
        while (n_found < N_THREADS * N_EACH)
                (void)uv_run(&loop, UV_RUN_ONCE);
        for (unsigned i = 0; i < N_THREADS; i++)
                ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        ck_assert_uint_le(n_calls, N_THREADS * N_EACH);
}

/* A thread that the loop has preempted within wake_send, or before its write, does not hold the loop up. */
TEST(a_send_that_is_under_way_is_not_awaited)
{
        wake.is_sent = true;
        ck_assert_int_ne(uv_run(&loop, UV_RUN_NOWAIT), 0);
        ck_assert_uint_eq(n_calls, 0);
}

TESTS_MAIN("wake", .limit_s = UNLIMITED, .start = begin, .stop = end)
