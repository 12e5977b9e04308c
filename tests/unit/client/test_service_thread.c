/* SPDX-License-Identifier: Apache-2.0 */
/* The beginning and the end of the service thread. */
#include "client/runtime/service_thread.h"
#include "tests/suite.h"

#define N_TIMES 10000

static void begin(void *owner)
{
        (void)service_thread_wake(owner);
}

static int look(void *owner)
{
        (void)service_thread_wake(owner);
        return -1;
}

static int listen_to_none(void *owner, void **ret_held)
{
        (void)owner;
        (void)ret_held;
        return -1;
}

static const struct service_thread_owner calls = {
        .begin = begin, .look = look, .listen = listen_to_none};

/* What it frees may wake it. */
TEST(it_ends_at_once_though_it_wakes_itself)
{
        for (unsigned i = 0; i < N_TIMES; i++) {
                struct service_thread service;

                ck_assert_int_eq(service_thread_init(&service, &calls, &service), 0);
                ck_assert(service_thread_wake(&service));
                service_thread_deinit(&service);
                ck_assert(!service_thread_is_running(&service));
        }
}

TESTS_MAIN("service_thread")
