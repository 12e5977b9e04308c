/* SPDX-License-Identifier: Apache-2.0 */
/* fd_watch: what the kernel says of fds is told once, a part in each look, and each fd's payer pays for what is told of it. */
#include "daemon/server/scheduler/fd_watch.h"

#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/server/scheduler/scheduler.h"
#include "base/err.h"
#include "base/fdset.h"
#include "tests/suite.h"

#define N 300 /* more than two looks take */

static uv_loop_t loop;
static struct scheduler scheduler;
static struct payer user, other;
static unsigned n_ended;

static struct watched {
        struct fd_watch watch;
        struct payer *payer;
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
        n_ended++;
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
        ck_assert_int_eq(fd_watch_begin(&watched[i].watch, &scheduler.watches, watched[i].payer,
                                        watched[i].fd, events),
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
        for (unsigned i = 0; i < N; i++) {
                watched[i].fd = -1;
                watched[i].payer = &user;
        }
        memset(&scheduler, 0, sizeof(scheduler));
        n_ended = 0;
        ck_assert_int_eq(uv_loop_init(&loop), 0);
        ck_assert_int_eq(scheduler_open(&scheduler, &loop, &calls), 0);
        ck_assert_int_eq(payer_init(&user, &scheduler.everyone, on_end), 0);
        ck_assert_int_eq(payer_init(&other, &scheduler.everyone, on_end), 0);
}

static void stop(void)
{
        for (unsigned i = 0; i < N; i++)
                end(i);
        payer_unref(&user);
        payer_unref(&other);
        ck_assert_int_eq(uv_loop_close(&loop), 0);
        scheduler_deinit(&scheduler);
        ck_assert_uint_eq(n_ended, 2);
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

/* No look takes all the time: others' steps come between two. */
TEST(many_events_are_told_in_several_looks)
{
        unsigned n_looks = 0, n_told = 0;

        for (unsigned i = 0; i < N; i++) {
                begin(i, EPOLLIN);
                make_readable(i);
        }
        while (n_told < N && n_looks < N) {
                scheduler_run_once(&scheduler);
                n_looks++;
                n_told = 0;
                for (unsigned i = 0; i < N; i++)
                        n_told += watched[i].n_told;
        }
        ck_assert_uint_eq(n_looks, 3);
        run();
        for (unsigned i = 0; i < N; i++)
                ck_assert_uint_eq(watched[i].n_told, 1);
}

TEST(each_payer_pays_for_what_is_told_of_its_fds)
{
        for (unsigned i = 0; i < 10; i++) {
                watched[i].payer = i < 9 ? &user : &other;
                begin(i, EPOLLIN);
                make_readable(i);
        }
        scheduler_run_once(&scheduler);
        ck_assert_uint_gt(other.used_ns, 0);
        ck_assert_uint_eq(user.used_ns, 9 * other.used_ns);
        ck_assert_uint_eq(scheduler.everyone.used_ns, 10 * other.used_ns);
        ck_assert_uint_eq(scheduler.stats.n_steps, 0);
}

TEST(a_payer_lasts_as_long_as_its_watches)
{
        begin(0, EPOLLIN);
        payer_unref(&user);
        make_readable(0);
        run();
        ck_assert_uint_eq(watched[0].n_told, 1);
        ck_assert_uint_eq(n_ended, 0);
        payer_ref(&user);
        end(0);
}

TEST(what_has_ended_is_told_no_more)
{
        begin(0, EPOLLIN);
        begin(1, EPOLLIN);
        make_readable(0);
        make_readable(1);
        end(1);
        run();
        ck_assert_uint_eq(watched[0].n_told, 1);
        ck_assert_uint_eq(watched[1].n_told, 0);
}

TEST(one_event_is_told_until_a_change_if_so_asked)
{
        begin(0, EPOLLIN | EPOLLONESHOT);
        for (unsigned i = 0; i < 3; i++) {
                make_readable(0);
                run();
        }
        ck_assert_uint_eq(watched[0].n_told, 1);
        fd_watch_change(&watched[0].watch, EPOLLIN);
        run();
        ck_assert_uint_eq(watched[0].n_told, 2);
        make_readable(0);
        run();
        ck_assert_uint_eq(watched[0].n_told, 3);
}

TESTS_MAIN("fd_watch", .start = start, .stop = stop)
