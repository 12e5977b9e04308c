/* SPDX-License-Identifier: Apache-2.0 */
/* How many sockets a lane takes, and when nothing more should come. */
#include "daemon/server/transport/lanes.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fdset.h"
#include "tests/suite.h"

#define ALICE 1000
#define BOB   1001
#define N_MAX 16

static struct lanes *lanes;
static int client_fd;
static int fds[N_MAX];
static unsigned n_fds;

static void start(void)
{
        client_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        ck_assert_int_ge(client_fd, 0);
        ck_assert_int_eq(lanes_new(N_MAX, &lanes), 0);
        for (unsigned i = 0; i < SLOW_USER_CALLS; i++) {
                lanes_note(lanes, ALICE, SLOW_USER_NS, NS_PER_S);
                lanes_note(lanes, BOB, SLOW_USER_NS, NS_PER_S);
        }
}

static void hang_up(void)
{
        while (n_fds)
                closep(&fds[--n_fds]);
}

static void stop(void)
{
        hang_up();
        lanes = lanes_free(lanes);
        closep(&client_fd);
}

static int take(uint64_t owner)
{
        int r = lanes_take(lanes, owner, client_fd, &fds[n_fds]);

        n_fds += r == 0;
        return r;
}

static unsigned take_all(uint64_t owner)
{
        unsigned n = 0;
        int r;

        while ((r = take(owner)) == 0)
                n++;
        ck_assert_int_eq(r, -EMFILE);
        return n;
}

/* Half of what may be is for sockets. One user has half of that, the next one half of the rest. */
TEST(each_leaves_as_many_as_it_has)
{
        ck_assert_uint_eq(take_all(ALICE), N_MAX / 4);
        ck_assert_uint_eq(take_all(BOB), N_MAX / 8);
        ck_assert(!lanes_are_full(lanes));
}

TEST(what_has_ended_leaves_room)
{
        (void)take_all(ALICE);
        hang_up();
        while (lanes->n_links)
                (void)usleep(100);
        ck_assert_uint_eq(take_all(ALICE), N_MAX / 4);
}

/* A pipe whose reader sees when it is closed. */
TEST(what_is_to_be_closed_is_never_refused)
{
        for (unsigned i = 0; i < 2 * N_MAX; i++) {
                int pair[2];
                char byte;

                ck_assert_int_eq(pipe2(pair, O_CLOEXEC), 0);
                ck_assert_int_eq(lanes_close(lanes, ALICE, pair[1]), 0);
                ck_assert_int_eq((int)read(pair[0], &byte, 1), 0);
                closep(&pair[0]);
        }
}

TEST(as_many_as_may_be_are_full)
{
        atomic_store(&lanes->n_links, N_MAX - 1);
        ck_assert(!lanes_are_full(lanes));
        atomic_store(&lanes->n_links, N_MAX);
        ck_assert(lanes_are_full(lanes));
        ck_assert_int_eq(take(ALICE), -EMFILE);
        atomic_store(&lanes->n_links, 0);
}

/* Of one owner in one step; what is short together is nothing. */
TEST(calls_of_a_step_add_up)
{
        const uint64_t half = PAYER_STEP_MAX_NS / 2 + 1;

        ck_assert_uint_eq(lanes_add_up(lanes, ALICE, 1, half), 0);
        ck_assert_uint_eq(lanes_add_up(lanes, ALICE, 2, half), 0);
        ck_assert_uint_eq(lanes_add_up(lanes, BOB, 2, half), 0);
        ck_assert_uint_eq(lanes_add_up(lanes, BOB, 2, half), 2 * half);
        ck_assert_uint_eq(lanes_add_up(lanes, BOB, 2, half), 0);
}

TESTS_MAIN("lanes", .start = start, .stop = stop)
