/* SPDX-License-Identifier: Apache-2.0 */
/* scheduler: how much of the time the admin socket has, beside one user and beside many; when the loop looks for news;
 * what is counted. Time is what each step says that it takes. */
#include "daemon/server/scheduler/scheduler.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>

#include "base/err.h"
#include "base/fdset.h"
#include "tests/suite.h"

#define N_USERS 100
#define US      UINT64_C(1000)
#define MS      (1000 * US)
#define S       (1000 * MS)

static struct worker {
        struct payer payer;
        struct task task;
        struct payer *pays, *pays_also;
        uint64_t step_ns, others_ns; /* in its steps the kernel also runs others for so long */
        uint64_t n_ns;
        unsigned n_steps;
        unsigned n_left; /* steps until it has no more to do */
} admin, arriving, serving, users[N_USERS];

static uv_loop_t loop;
static struct scheduler scheduler;
static uv_timer_t later; /* for it the loop waits */
static uint64_t now_ns, preempted_ns, wait_ns, preempted_waiting_ns;
static unsigned n_after, n_looks, n_waits;

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
        uint64_t ns = clock == CLOCK_THREAD_CPUTIME_ID ? now_ns - preempted_ns : now_ns;

        *now = (struct timespec){.tv_sec = (time_t)(ns / S), .tv_nsec = (long)(ns % S)};
        return 0;
}

int __real_epoll_wait(int set, struct epoll_event *events, int n_most, int timeout_ms);
int __wrap_epoll_wait(int set, struct epoll_event *events, int n_most, int timeout_ms);
int __wrap_epoll_wait(int set, struct epoll_event *events, int n_most, int timeout_ms)
{
        n_looks++;
        n_waits += timeout_ms != 0;
        if (timeout_ms) {
                now_ns += wait_ns;
                preempted_ns += preempted_waiting_ns;
        }
        return __real_epoll_wait(set, events, n_most, 0);
}

static void after_step(struct scheduler *of)
{
        ck_assert_ptr_eq(of, &scheduler);
        n_after++;
}

static void after_turn(struct scheduler *of)
{
        ck_assert_ptr_eq(of, &scheduler);
}

static const struct scheduler_calls calls = {after_step, after_turn};

static void work(struct task *task)
{
        struct worker *worker = CONTAINER_OF(task, struct worker, task);

        now_ns += worker->step_ns + worker->others_ns;
        preempted_ns += worker->others_ns;
        worker->n_ns += worker->step_ns;
        worker->n_steps++;
        if (worker->pays_also)
                scheduler_charge_also(&scheduler, worker->pays_also);
        if (--worker->n_left)
                payer_put(worker->pays, task);
}

static void on_end(struct payer *payer)
{
        (void)payer;
}

static void start(void)
{
        memset(users, 0, sizeof(users));
        memset(&scheduler, 0, sizeof(scheduler));
        n_after = n_looks = n_waits = 0;
        wait_ns = preempted_waiting_ns = 0;
        ck_assert_int_eq(uv_loop_init(&loop), 0);
        ck_assert_int_eq(uv_timer_init(&loop, &later), 0);
        ck_assert_int_eq(scheduler_open(&scheduler, &loop, &calls), 0);
        admin = (struct worker){.task = {.step = work}, .pays = &scheduler.admin};
        arriving = (struct worker){.task = {.step = work}, .pays = &scheduler.arriving};
        serving = (struct worker){.task = {.step = work}, .pays = &scheduler.serving};
        for (unsigned i = 0; i < N_USERS; i++) {
                users[i].task.step = work;
                users[i].pays = &users[i].payer;
                ck_assert_int_eq(payer_init(&users[i].payer, &scheduler.everyone, on_end), 0);
        }
}

static void stop(void)
{
        for (unsigned i = 0; i < N_USERS; i++) {
                payer_take_out(&users[i].task);
                payer_unref(&users[i].payer);
        }
        payer_take_out(&admin.task);
        payer_take_out(&arriving.task);
        payer_take_out(&serving.task);
        uv_close((uv_handle_t *)&later, NULL);
        (void)uv_run(&loop, UV_RUN_DEFAULT);
        ck_assert_int_eq(uv_loop_close(&loop), 0);
        scheduler_deinit(&scheduler);
}

static void begin(struct worker *worker, unsigned n_steps, uint64_t step_ns)
{
        worker->n_left = n_steps;
        worker->step_ns = step_ns;
        payer_put(worker->pays, &worker->task);
}

static void run_for(uint64_t n_ns)
{
        for (uint64_t until_ns = now_ns + n_ns; now_ns < until_ns;)
                scheduler_run_once(&scheduler);
}

/* Until there is no work. */
static void run_out(void)
{
        while (scheduler_has_work(&scheduler))
                scheduler_run_once(&scheduler);
}

static void begin_users(unsigned n)
{
        for (unsigned i = 0; i < n; i++) {
                begin(&users[i], UINT32_MAX, 50 * US);
                users[i].n_ns = 0;
        }
}

static uint64_t users_ns(void)
{
        uint64_t n_ns = 0;

        for (unsigned i = 0; i < N_USERS; i++)
                n_ns += users[i].n_ns;
        return n_ns;
}

/* The one was alone for ten seconds before the others came. */
TEST(beside_many_users_the_admin_socket_has_a_tenth)
{
        begin_users(1);
        run_for(10 * S);
        begin_users(N_USERS);
        run_for(S);
        begin_users(N_USERS);
        begin(&admin, UINT32_MAX, 100 * US);
        run_for(S);
        ck_assert_uint_ge(admin.n_ns, S / 10 - MS);
        ck_assert_uint_le(admin.n_ns, S / 10 + 10 * MS);
        ck_assert_uint_ge(users_ns(), S * 88 / 100);
}

/* And both have theirs at a time. */
TEST(connections_that_arrive_have_a_tenth_too)
{
        begin_users(N_USERS);
        begin(&arriving, UINT32_MAX, 10 * US);
        run_for(S);
        ck_assert_uint_ge(arriving.n_ns, S / 10 - MS);
        ck_assert_uint_le(arriving.n_ns, S / 10 + 10 * MS);
        begin(&admin, UINT32_MAX, 100 * US);
        arriving.n_ns = 0;
        begin_users(N_USERS);
        run_for(S);
        ck_assert_uint_ge(arriving.n_ns, S / 10 - MS);
        ck_assert_uint_ge(admin.n_ns, S / 10 - MS);
        ck_assert_uint_ge(users_ns(), S * 77 / 100);
}

/* Others' requests wait for the end of a walk. Beside it both tenths are what they are, and users have the rest. */
TEST(walks_through_queues_have_half)
{
        begin_users(N_USERS);
        begin(&serving, UINT32_MAX, 50 * US);
        run_for(S);
        ck_assert_uint_ge(serving.n_ns, S / 2 - 10 * MS);
        ck_assert_uint_le(serving.n_ns, S / 2 + 20 * MS);
        begin(&admin, UINT32_MAX, 100 * US);
        begin(&arriving, UINT32_MAX, 10 * US);
        serving.n_ns = 0;
        begin_users(N_USERS);
        run_for(S);
        ck_assert_uint_ge(serving.n_ns, S / 2 - 10 * MS);
        ck_assert_uint_ge(admin.n_ns, S / 10 - MS);
        ck_assert_uint_ge(arriving.n_ns, S / 10 - MS);
        ck_assert_uint_ge(users_ns(), S * 27 / 100);
}

/* Nor does it save up what it did not want. */
TEST(after_an_hour_without_questions_it_has_no_more)
{
        for (unsigned i = 0; i < 20; i++)
                begin(&users[i], UINT32_MAX, MS);
        run_for(100 * S);
        for (unsigned i = 0; i < 20; i++)
                users[i].n_ns = 0;
        begin(&admin, UINT32_MAX, 100 * US);
        run_for(S / 10);
        ck_assert_uint_ge(users_ns(), S / 10 * 85 / 100);
}

/* What it had while no user had work is not held against it. */
TEST(after_an_hour_of_questions_it_has_no_less)
{
        begin(&admin, UINT32_MAX, MS);
        run_for(100 * S);
        admin.n_ns = 0;
        begin_users(N_USERS);
        run_for(S / 10);
        ck_assert_uint_ge(admin.n_ns, S / 100 - 2 * MS);
}

TEST(beside_one_user_the_admin_socket_has_half)
{
        begin_users(1);
        begin(&admin, UINT32_MAX, 50 * US);
        run_for(S);
        ck_assert_uint_ge(admin.n_ns, S * 49 / 100);
        ck_assert_uint_ge(users_ns(), S * 49 / 100);
}

static void expect_to_be_next(struct worker *worker)
{
        unsigned n_after_before;

        begin_users(N_USERS);
        for (unsigned i = 0; i < 50; i++) {
                run_for(10 * MS);
                n_after_before = n_after;
                begin(worker, 1, 20 * US);
                while (worker->n_left)
                        scheduler_run_once(&scheduler);
                ck_assert_uint_le(n_after, n_after_before + 3);
        }
        ck_assert_uint_eq(worker->n_steps, 50);
}

/* By then no user has had another step. */
TEST(a_question_after_a_while_is_next)
{
        expect_to_be_next(&admin);
}

TEST(so_is_a_connection_that_arrives)
{
        expect_to_be_next(&arriving);
}

/* After 25 us of steps, whatever is left: 5 of 5 us, or one of any length. */
TEST(between_short_turns_the_loop_looks_for_news)
{
        for (unsigned i = 0; i < 20; i++)
                begin(&users[i], 1, 5 * US);
        scheduler_run_once(&scheduler);
        ck_assert_uint_eq(n_after, 5);
        for (unsigned i = 0; i < 3; i++)
                scheduler_run_once(&scheduler);
        ck_assert_uint_eq(n_after, 20);
        begin(&users[0], 2, 5 * MS);
        scheduler_run_once(&scheduler);
        ck_assert_uint_eq(users[0].n_steps, 2);
        scheduler_run_once(&scheduler);
        ck_assert_uint_eq(users[0].n_steps, 3);
}

static void note_time(uv_timer_t *timer)
{
        *(bool *)timer->data = true;
}

/* And is woken for its timers. With work it looks, and waits for nothing. */
TEST(without_work_the_loop_waits)
{
        bool has_come = false;

        later.data = &has_come;
        (void)uv_timer_start(&later, note_time, 20, 0);
        begin(&users[0], 4, 30 * US);
        run_out();
        ck_assert_uint_eq(n_waits, 0);
        ck_assert_uint_eq(n_looks, 4);
        while (!has_come)
                scheduler_run_once(&scheduler);
        ck_assert_uint_gt(n_waits, 0);
}

static void never(uv_timer_t *timer)
{
        (void)timer;
}

/* libuv before 1.44 watches nothing until it has run, and does not say so. */
TEST(libuv_has_run_before_the_loop_waits)
{
        (void)uv_timer_start(&later, never, 1000 * 1000, 0);
        scheduler_run_once(&scheduler);
        ck_assert_uint_eq(n_looks, 1);
        ck_assert_uint_eq(n_waits, 0);
        scheduler_run_once(&scheduler);
        ck_assert_uint_eq(n_waits, 1);
}

TEST(once_closed_it_takes_no_step)
{
        begin(&users[0], 1, US);
        scheduler_close(&scheduler);
        ck_assert(!scheduler_has_work(&scheduler));
        scheduler_run_once(&scheduler);
        ck_assert_uint_eq(users[0].n_steps, 0);
}

TEST(what_is_taken_out_has_no_step)
{
        begin(&users[0], 3, US);
        payer_put(users[0].pays, &users[0].task);
        run_out();
        ck_assert_uint_eq(users[0].n_steps, 3);
        begin(&users[1], 3, US);
        payer_take_out(&users[1].task);
        run_out();
        ck_assert_uint_eq(users[1].n_steps, 0);
}

TEST(steps_are_counted)
{
        begin(&users[0], 5, SCHEDULER_LATE_NS);
        run_out();
        begin(&users[0], 2, SCHEDULER_LATE_NS + 1);
        run_out();
        ck_assert_uint_eq(scheduler.stats.n_steps, 7);
        ck_assert_uint_eq(scheduler.stats.n_late, 2);
        ck_assert_uint_eq(scheduler.stats.longest_ns, SCHEDULER_LATE_NS + 1);
        ck_assert_uint_eq(scheduler_cpu_ns(&scheduler), 7 * SCHEDULER_LATE_NS + 2);
        ck_assert_uint_eq(scheduler.everyone.used_ns, 7 * SCHEDULER_LATE_NS + 2);
}

/* Neither does it pay for that, nor are its steps late. */
TEST(the_time_of_others_is_not_a_steps)
{
        users[0].others_ns = 150 * US;
        begin_users(2);
        run_for(S);
        ck_assert_uint_ge(users[0].n_steps + 10, users[1].n_steps);
        ck_assert_uint_eq(scheduler.stats.n_late, 0);
        ck_assert_uint_le(scheduler.stats.longest_ns, 51 * US);
        ck_assert_uint_eq(scheduler_cpu_ns(&scheduler),
                          now_ns - scheduler.stats.since_ns - preempted_ns);
}

/* A connection is taken by a payer beside the users. So users that connect pay twice: others have their shares, and that
 * user has nothing beside it. */
TEST(who_a_step_was_for_pays_also)
{
        begin_users(3);
        users[2].pays_also = &users[0].payer;
        run_for(S);
        ck_assert_uint_le(users[0].n_ns, 200 * US);
        ck_assert_uint_ge(users[1].n_ns + 200 * US, users[2].n_ns);
        ck_assert_uint_le(users[1].n_ns, users[2].n_ns + 200 * US);
}

/* The loop waits for news, and works all the while until it sleeps, and from when it is woken. */
static void be_idle(uint64_t n_idle_ns, uint64_t n_worked_ns)
{
        (void)uv_timer_start(&later, never, 1000 * 1000, 0);
        wait_ns = n_idle_ns;
        preempted_waiting_ns = n_idle_ns - n_worked_ns;
        scheduler_run_once(&scheduler);
}

/* What the loop works in its idle time would make up for the time of others in the step after it. */
TEST(neither_is_it_after_idle_time)
{
        users[0].others_ns = 150 * US;
        for (unsigned i = 0; i < 100; i++) {
                be_idle(500 * US, 200 * US);
                begin(&users[0], 1, 30 * US);
                run_out();
        }
        ck_assert_uint_eq(scheduler.stats.n_late, 0);
        ck_assert_uint_le(scheduler.stats.longest_ns, 31 * US);
        ck_assert_uint_eq(scheduler.everyone.used_ns, 100 * 30 * US);
}

/* Idle time is not the time of others: what took long is seen all the same. */
TEST(idle_time_makes_no_step_short)
{
        for (unsigned i = 0; i < 100; i++) {
                be_idle(40 * US, 0);
                begin(&users[0], 1, SCHEDULER_LATE_NS + 1);
                run_out();
        }
        ck_assert_uint_eq(scheduler.stats.n_late, 100);
}

TESTS_MAIN("scheduler", .start = start, .stop = stop)
