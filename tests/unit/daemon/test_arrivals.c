/* SPDX-License-Identifier: Apache-2.0 */
/* arrivals: while the kernel keeps the thread waiting the loop goes on, and users take turns at the thread. */
#include "daemon/server/arrivals.h"

#include <semaphore.h>
#include <string.h>

#include "base/err.h"
#include "gpumem.h"
#include "tests/suite.h"

#define MANY 512 /* of one user's, at most */

static struct server server;
static struct arrivals arrivals;
static struct user *one, *other;
static sem_t may_identify; /* one connection for each post */
static int let_in[2 * MANY], closed[2 * MANY];
static unsigned n_let_in, n_closed, n_other_steps;
static bool is_over;

int __wrap_peer_init(struct peer *peer, int socket);
int __wrap_peer_init(struct peer *peer, int socket)
{
        (void)socket;
        (void)sem_wait(&may_identify);
        peer->pidfd = -1;
        return 0;
}

void __wrap_session_accept(struct server *of, int take_fd, enum session_way way, int r,
                           const struct peer *take_peer);
void __wrap_session_accept(struct server *of, int take_fd, enum session_way way, int r,
                           const struct peer *take_peer)
{
        (void)way;
        ck_assert_ptr_eq(of, &server);
        ck_assert_int_eq(r, 0);
        ck_assert_int_eq(take_peer->pidfd, -1);
        let_in[n_let_in++] = take_fd;
}

void __wrap_socket_close(struct server *of, int take_fd);
void __wrap_socket_close(struct server *of, int take_fd)
{
        ck_assert_ptr_eq(of, &server);
        closed[n_closed++] = take_fd;
}

static void after_step(struct scheduler *scheduler)
{
        (void)scheduler;
}

static void start(void)
{
        memset(&server, 0, sizeof(server));
        memset(&arrivals, 0, sizeof(arrivals));
        n_let_in = n_closed = n_other_steps = 0;
        is_over = false;
        ck_assert_int_eq(sem_init(&may_identify, 0, 0), 0);
        ck_assert_int_eq(uv_loop_init(&server.loop), 0);
        ck_assert_int_eq(scheduler_open(&server.scheduler, &server.loop, after_step), 0);
        server.accounts.everyone = &server.scheduler.everyone;
        ck_assert_int_eq(user_ref(&server.accounts, 1, &one), 0);
        ck_assert_int_eq(user_ref(&server.accounts, 2, &other), 0);
        ck_assert_int_eq(arrivals_open(&arrivals, &server), 0);
}

static void end_arrivals(void)
{
        if (!is_over)
                arrivals_close(&arrivals, NULL);
        is_over = true;
}

static void stop(void)
{
        for (unsigned i = 0; i < 2 * MANY; i++)
                (void)sem_post(&may_identify);
        end_arrivals();
        (void)user_unref(one);
        (void)user_unref(other);
        scheduler_close(&server.scheduler);
        (void)uv_run(&server.loop, UV_RUN_DEFAULT);
        ck_assert_int_eq(uv_loop_close(&server.loop), 0);
        scheduler_deinit(&server.scheduler);
        (void)sem_destroy(&may_identify);
}

static void come(struct user *user, int fd)
{
        ck_assert_int_eq(
                arrivals_add(&arrivals, user, user ? SESSION_AS_CLIENT : SESSION_AS_ADMIN, fd), 0);
}

static void identify(unsigned n)
{
        while (n--)
                (void)sem_post(&may_identify);
}

static void await_let_in(unsigned n)
{
        while (n_let_in < n)
                (void)uv_run(&server.loop, UV_RUN_ONCE);
}

static void count_step(struct task *task)
{
        if (++n_other_steps < 1000)
                scheduler_put(&server.scheduler, &other->payer, task);
}

TEST(who_cannot_be_identified_yet_stops_no_step)
{
        struct task task = {.step = count_step};

        come(one, 1);
        come(NULL, 2);
        scheduler_put(&server.scheduler, &other->payer, &task);
        while (n_other_steps < 1000)
                (void)uv_run(&server.loop, UV_RUN_ONCE);
        ck_assert_uint_eq(n_let_in, 0);
        identify(2);
        await_let_in(2);
        ck_assert_int_eq(let_in[0] + let_in[1], 3);
}

/* The thread asks for a few of one user's, and goes on with the other's. */
TEST(users_take_turns)
{
        unsigned at = 0;

        for (int i = 0; i < 40; i++)
                come(one, i);
        come(other, 100);
        identify(41);
        await_let_in(41);
        while (let_in[at] != 100)
                at++;
        ck_assert_uint_lt(at, 20);
        for (unsigned i = 0, next = 0; i < 41; i++) {
                if (i != at)
                        ck_assert_int_eq(let_in[i], (int)next++);
        }
        ck_assert_ptr_null(one->door);
        ck_assert_ptr_null(other->door);
}

TEST(too_many_of_one_user_are_turned_away)
{
        for (int i = 0; i < MANY; i++)
                come(one, i);
        ck_assert_int_eq(arrivals_add(&arrivals, one, SESSION_AS_CLIENT, MANY), GPUMEM_E_TOO_MANY);
        come(other, 1000);
        come(NULL, 1001);
        identify(MANY + 2);
        await_let_in(MANY + 2);
        come(one, MANY);
        identify(1);
        await_let_in(MANY + 3);
}

/* One is being identified then, one was, and others wait. */
TEST(at_the_end_all_are_closed)
{
        for (int i = 0; i < 40; i++)
                come(one, i);
        come(other, 100);
        identify(2 * MANY);
        await_let_in(1);
        end_arrivals();
        ck_assert_uint_eq(n_let_in + n_closed, 41);
        ck_assert_ptr_null(one->door);
}

TESTS_MAIN("arrivals", .start = start, .stop = stop)
