/* SPDX-License-Identifier: Apache-2.0 */
/* Errands are run in their order, all of them, by another thread. */
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include "base/err.h"
#include "daemon/backing/worker/abandoned_threads.h"
#include "daemon/backing/worker/errand_thread.h"
#include "tests/suite.h"

#define N 1000

struct numbered {
        struct errand errand;
        unsigned number;
};

static struct {
        struct errand_thread *thread;
        struct numbered errands[N];
        pthread_t ran_by;
        unsigned n_begun, n_run;
        sem_t may_go_on;
} world;

static void begin(void *argument)
{
        ck_assert_ptr_eq(argument, &world);
        world.n_begun++;
}

static void run(struct errand *errand, void *argument)
{
        ck_assert_ptr_eq(argument, &world);
        ck_assert_uint_eq(CONTAINER_OF(errand, struct numbered, errand)->number, world.n_run);
        world.n_run++;
        world.ran_by = pthread_self();
}

static void run_late(struct errand *errand, void *argument)
{
        (void)sem_wait(&world.may_go_on);
        run(errand, argument);
}

static void start(void)
{
        const struct errand_rules rules = {
                .name = "test", .why_late = "it waits", .begin = begin, .argument = &world};

        ck_assert_int_eq(sem_init(&world.may_go_on, 0, 0), 0);
        ck_assert_int_eq(errand_thread_new(&rules, &world.thread), 0);
        for (unsigned i = 0; i < N; i++)
                world.errands[i] = (struct numbered){{.run = run}, i};
}

static void stop(void)
{
        world.thread = errand_thread_free(world.thread);
}

static void put_all(void)
{
        for (unsigned i = 0; i < N; i++)
                errand_thread_put(world.thread, &world.errands[i].errand);
}

TEST(all_are_run_in_their_order_before_the_end)
{
        put_all();
        world.thread = errand_thread_free(world.thread);
        ck_assert_uint_eq(world.n_begun, 1);
        ck_assert_uint_eq(world.n_run, N);
        ck_assert(!pthread_equal(world.ran_by, pthread_self()));
}

TEST(none_is_nothing)
{
        ck_assert_ptr_null(errand_thread_free(NULL));
        world.thread = errand_thread_free(world.thread);
        ck_assert_uint_eq(world.n_run, 0);
        ck_assert(!abandoned_threads_any());
}

/* What it uses stays. */
TEST(one_that_waits_is_left_behind)
{
        world.errands[0].errand.run = run_late;
        put_all();
        world.thread = errand_thread_free(world.thread);
        ck_assert(abandoned_threads_any());
        ck_assert_uint_eq(world.n_run, 0);
        for (unsigned i = 0; i < N; i++)
                (void)sem_post(&world.may_go_on);
}

TESTS_MAIN("errand_thread", .start = start, .stop = stop)
