/* SPDX-License-Identifier: Apache-2.0 */
/* The beginning and the end of the service thread. */
#include "client/runtime/service_thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <unistd.h>

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

static struct service_thread *refused; /* no thread for it */
static pthread_t asker;
static bool is_told_of_one;

static int create(pthread_t *ret_thread, const pthread_attr_t *attributes,
                  void *(*run)(void *argument), void *argument)
{
        int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

        *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
        return real(ret_thread, attributes, run, argument);
}

static void *ask_for_one(void *argument)
{
        is_told_of_one = service_thread_wake(argument);
        return NULL;
}

/* Instead of the C library's. */
int pthread_create(pthread_t *ret_thread, const pthread_attr_t *attributes,
                   void *(*run)(void *argument), void *argument)
{
        if (!refused)
                return create(ret_thread, attributes, run, argument);
        ck_assert_int_eq(create(&asker, NULL, ask_for_one, refused), 0);
        (void)usleep(100000);
        return EAGAIN;
}

/* It would leave its work to the thread. */
TEST(no_other_is_told_of_a_thread_that_does_not_start)
{
        struct service_thread service;

        ck_assert_int_eq(service_thread_init(&service, &calls, &service), 0);
        refused = &service;
        ck_assert(!service_thread_wake(&service));
        refused = NULL;
        ck_assert_int_eq(pthread_join(asker, NULL), 0);
        ck_assert(!is_told_of_one);
        ck_assert(!service_thread_wake(&service));
        service_thread_deinit(&service);
}

TESTS_MAIN("service_thread")
