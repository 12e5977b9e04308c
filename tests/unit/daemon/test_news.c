/* SPDX-License-Identifier: Apache-2.0 */
/* news: what the kernel says of a payer's fds is told once, a part in each step, and the payer pays for it. */
#include "daemon/server/scheduler/news.h"

#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"
#include "tests/suite.h"

#define N 70 /* more than two steps take */

static uv_loop_t loop;
static struct scheduler scheduler;
static struct payer user;
static struct news *news;
static bool has_user_ended;

static struct watched {
        struct fd_watch watch;
        int fd;
        unsigned n_told;
        uint32_t events;
} watched[N];

static void nothing(struct scheduler *of)
{
        (void)of;
}

static const struct scheduler_calls calls = {nothing, nothing};

static void on_end(struct payer *payer)
{
        (void)payer;
        has_user_ended = true;
}

static void report(struct fd_watch *watch, uint32_t events)
{
        struct watched *of = CONTAINER_OF(watch, struct watched, watch);

        of->n_told++;
        of->events = events;
}

static void begin(unsigned i, uint32_t events)
{
        watched[i].fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        ck_assert_int_ge(watched[i].fd, 0);
        watched[i].watch.report = report;
        ck_assert_int_eq(
                fd_watch_begin(&watched[i].watch, &scheduler, &user, &news, watched[i].fd, events),
                0);
}

static void end(unsigned i)
{
        fd_watch_end(&watched[i].watch);
        closep(&watched[i].fd);
}

static void make_readable(unsigned i)
{
        ck_assert_int_eq(eventfd_write(watched[i].fd, 1), 0);
}

/* Until nothing more is told. */
static void run(void)
{
        for (unsigned i = 0; i < 20; i++)
                scheduler_run_once(&scheduler);
}

static void start(void)
{
        memset(watched, 0, sizeof(watched));
        for (unsigned i = 0; i < N; i++)
                watched[i].fd = -1;
        memset(&scheduler, 0, sizeof(scheduler));
        news = NULL;
        has_user_ended = false;
        ck_assert_int_eq(uv_loop_init(&loop), 0);
        ck_assert_int_eq(scheduler_open(&scheduler, &loop, &calls), 0);
        ck_assert_int_eq(payer_init(&user, &scheduler.everyone, on_end), 0);
}

static void stop(void)
{
        for (unsigned i = 0; i < N; i++)
                end(i);
        ck_assert_ptr_null(news);
        payer_unref(&user);
        ck_assert_int_eq(uv_loop_close(&loop), 0);
        scheduler_deinit(&scheduler);
        ck_assert(has_user_ended);
}

TEST(an_event_is_told_once)
{
        begin(0, EPOLLIN);
        run();
        ck_assert_uint_eq(watched[0].n_told, 0);
        make_readable(0);
        run();
        ck_assert_uint_eq(watched[0].n_told, 1);
        ck_assert_uint_eq(watched[0].events, EPOLLIN);
        make_readable(0);
        run();
        ck_assert_uint_eq(watched[0].n_told, 2);
}

TEST(after_a_change_what_stands_is_told_again)
{
        begin(0, EPOLLIN);
        make_readable(0);
        run();
        fd_watch_change(&watched[0].watch, EPOLLIN);
        run();
        ck_assert_uint_eq(watched[0].n_told, 1);
        fd_watch_change(&watched[0].watch, EPOLLIN | EPOLLOUT);
        run();
        ck_assert_uint_eq(watched[0].n_told, 2);
        ck_assert_uint_eq(watched[0].events, EPOLLIN | EPOLLOUT);
}

/* 32 events in a step; all that is done here are such steps. */
TEST(many_events_are_told_in_several_steps_of_their_payer)
{
        for (unsigned i = 0; i < N; i++) {
                begin(i, EPOLLIN);
                make_readable(i);
        }
        run();
        for (unsigned i = 0; i < N; i++)
                ck_assert_uint_eq(watched[i].n_told, 1);
        ck_assert_uint_eq(scheduler.stats.n_steps, 3);
        ck_assert_uint_gt(user.used_ns, 0);
        ck_assert_uint_eq(user.used_ns, scheduler.everyone.used_ns);
}

TEST(one_set_is_for_all_and_ends_with_the_last_watch)
{
        struct news *first;

        begin(0, EPOLLIN);
        first = news;
        begin(1, EPOLLIN);
        ck_assert_ptr_eq(news, first);
        end(0);
        ck_assert_ptr_eq(news, first);
        make_readable(1);
        end(1);
        ck_assert_ptr_null(news);
        run();
        ck_assert_uint_eq(watched[1].n_told, 0);
        begin(2, EPOLLIN);
        make_readable(2);
        run();
        ck_assert_uint_eq(watched[2].n_told, 1);
}

static uint64_t n_steps_of(void (*run_on)(void))
{
        uint64_t n_before = scheduler.stats.n_steps;

        run_on();
        return scheduler.stats.n_steps - n_before;
}

/* While its user waits for its turn, more arrives: that is no more looks, at the set or at others. */
TEST(what_arrives_before_the_look_is_told_with_it)
{
        for (unsigned i = 0; i < 3; i++)
                begin(i, EPOLLIN);
        for (unsigned i = 0; i < 3; i++)
                make_readable(i);
        ck_assert_uint_eq(n_steps_of(run), 1);
        for (unsigned i = 0; i < 3; i++)
                ck_assert_uint_eq(watched[i].n_told, 1);
        ck_assert_uint_eq(n_steps_of(run), 0);
}

TESTS_MAIN("news", .start = start, .stop = stop)
