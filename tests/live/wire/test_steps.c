/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon's steps are seen by: how old the figures of STATS may be on a quiet and on a busy daemon, into how many
 * steps a request is cut, and what LOOP tells of them. The daemon is busy when it goes on after it stood still while many
 * asked. */
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "client/connection/rows.h"
#include "proto/board.h"
#include "tests/live/support/links.h"
#include "tests/live/support/world.h"
#include "tests/live/worlds/frames_world.h"
#include "tests/live/worlds/party.h"

#define N_MANY   100 /* clients: more than a step looks at */
#define N_BUSY   8   /* connections with so many requests each: */
#define N_FRAMES 20
#define SERIAL   7
#define N_TRIES  40
#define STRANGER 65534

/* For longer than this no look at the boards serves. */
#define LASTS_MS 200

static int busy[N_BUSY], asker;
static struct member claimant;

/* Figures are those of clients that have asked for memory. */
static void ask_once_for_memory(const struct member *member)
{
        const struct message_lease wanted = {.n_bytes = 2 * MIB};
        struct message_leased leased;

        ck_assert_int_eq(lease_over(member->link, &wanted, &leased), 0);
        return_over(member->link, leased.lease, PROTO_RETURN_UNMAPPED);
}

static void start(void)
{
        frames_start();
        asker = connect_ready();
        for (unsigned i = 0; i < N_BUSY; i++)
                busy[i] = connect_ready();
        claimant = member_join("claimant");
        ask_once_for_memory(&claimant);
}

static void stop(void)
{
        member_end(&claimant);
        frames_stop();
}

static void begin_many(void)
{
        for (unsigned i = 0; i < N_MANY; i++)
                (void)connect_ready();
}

static void claim(uint64_t n_hits)
{
        atomic_store(&board_pool(claimant.board, 0)->lanes[0].hits, n_hits);
}

static void ask(void)
{
        struct frame frame = FRAME_NULL;

        send_frame(asker, &frame, MESSAGE_STATS, SERIAL);
}

static struct stats_row answer(void)
{
        struct frame reply;
        struct fdset fds = FDSET_NULL;
        struct stats_row row;
        void *rows;

        ck_assert_int_eq(receive(asker, &reply, &fds), 0);
        ck_assert_uint_eq(reply.kind, MESSAGE_STATS_REPLY);
        ck_assert_int_eq(rows_read(fds.fds[0], reply.stats_reply.n_rows,
                                   reply.stats_reply.n_row_bytes, sizeof(struct stats_row), &rows),
                         0);
        row = *(const struct stats_row *)rows;
        free(rows);
        fdset_deinit(&fds);
        return row;
}

static uint64_t hits_when_quiet(void)
{
        ask();
        return answer().hits;
}

static void send_peaks(int fd, unsigned n)
{
        for (unsigned i = 0; i < n; i++) {
                struct frame frame = FRAME_NULL;

                frame.reset_peaks.scope = PROTO_SCOPE_TENANT;
                frame.reset_peaks.pool = PROTO_ALL_POOLS;
                send_frame(fd, &frame, MESSAGE_RESET_PEAKS, i);
        }
}

static void expect_peaks(int fd, unsigned n)
{
        struct fdset fds = FDSET_NULL;
        struct frame frame;

        for (unsigned i = 0; i < n; i++) {
                ck_assert_int_eq(receive(fd, &frame, &fds), 0);
                ck_assert_uint_eq(frame.serial, i);
        }
}

/* The question comes first, and the others wait while it is answered. */
static uint64_t hits_when_busy(void)
{
        uint64_t n_hits;

        daemon_suspend(&gpumemd);
        ask();
        for (unsigned i = 0; i < N_BUSY; i++)
                send_peaks(busy[i], N_FRAMES);
        daemon_resume(&gpumemd);
        n_hits = answer().hits;
        for (unsigned i = 0; i < N_BUSY; i++)
                expect_peaks(busy[i], N_FRAMES);
        return n_hits;
}

TEST(a_quiet_daemon_answers_exactly)
{
        begin_many();
        for (unsigned i = 1; i <= N_TRIES; i++) {
                claim(i);
                ck_assert_uint_eq(hits_when_quiet(), i);
        }
}

/* What one step finds is exact. */
TEST(a_small_daemon_answers_exactly_when_it_is_busy)
{
        for (unsigned i = 1; i <= N_TRIES; i++) {
                claim(i);
                ck_assert_uint_eq(hits_when_busy(), i);
        }
}

/* On a slow machine the last look may be too old by then, now and then. The next look, of which it does a part, is too old
 * for the question after it. */
TEST(a_busy_daemon_answers_from_its_last_look)
{
        unsigned n_old = 0;

        begin_many();
        for (unsigned i = 1; i <= N_TRIES; i++) {
                uint64_t n_hits;

                claim(2 * i);
                ck_assert_uint_eq(hits_when_quiet(), 2 * i);
                claim(2 * i + 1);
                n_hits = hits_when_busy();
                ck_assert_uint_ge(n_hits, 2 * i);
                n_old += n_hits == 2 * i;
        }
        ck_assert_uint_ne(n_old, 0);
}

TEST(no_busy_daemon_answers_from_an_old_look)
{
        begin_many();
        for (unsigned i = 1; i <= 3; i++) {
                claim(2 * i);
                ck_assert_uint_eq(hits_when_quiet(), 2 * i);
                claim(2 * i + 1);
                sleep_ms(LASTS_MS + 50);
                ck_assert_uint_eq(hits_when_busy(), 2 * i + 1);
        }
}

static uint64_t n_steps(void)
{
        return daemon_loop().steps;
}

/* Each connection sends a frame while the daemon stands still, and has an answer. */
static uint64_t n_steps_of(void (*send_one)(int fd), enum message_kind answer_kind, const int *fds)
{
        uint64_t n_before = n_steps();

        daemon_suspend(&gpumemd);
        for (unsigned i = 0; i < N_MANY; i++)
                send_one(fds[i]);
        daemon_resume(&gpumemd);
        for (unsigned i = 0; i < N_MANY; i++)
                (void)expect(fds[i], answer_kind);
        return n_steps() - n_before;
}

static void send_hello(int fd)
{
        struct frame hello = hello_frame();

        send_frame(fd, &hello, MESSAGE_HELLO, 1);
}

static void send_one_peak(int fd)
{
        send_peaks(fd, 1);
}

static void send_stats(int fd)
{
        struct frame frame = FRAME_NULL;

        send_frame(fd, &frame, MESSAGE_STATS, SERIAL);
}

/* A HELLO has a step more than a frame that is handled in one: its board, and the rest. So has a question for figures: a
 * part of a look, and the answer. The daemon has let all in before they say it. A few other steps come now and then. */
TEST(what_takes_long_is_two_steps)
{
        uint64_t n_of_hellos, n_of_peaks, n_of_stats;
        int fds[N_MANY];

        for (unsigned i = 0; i < N_MANY; i++)
                fds[i] = connect_raw();
        (void)daemon_quiet_fds(&gpumemd);
        n_of_hellos = n_steps_of(send_hello, MESSAGE_WELCOME, fds);
        n_of_peaks = n_steps_of(send_one_peak, MESSAGE_PEAKS_RESET, fds);
        n_of_stats = n_steps_of(send_stats, MESSAGE_STATS_REPLY, fds);
        ck_assert_uint_ge(n_of_hellos, n_of_peaks + N_MANY / 2);
        ck_assert_uint_ge(n_of_stats, n_of_peaks + N_MANY / 2);
}

#define N_GROUPS    32
#define N_PARTS     63
#define N_FEW_PARTS 15

static int connect_for_groups(void)
{
        struct frame hello = hello_frame();
        int fd = connect_raw();

        hello.hello.features |= PROTO_FEATURE_GROUPS;
        send_frame(fd, &hello, MESSAGE_HELLO, 1);
        (void)expect(fd, MESSAGE_WELCOME);
        return fd;
}

static void send_part(int fd, uint32_t flags, uint32_t serial)
{
        struct frame frame = lease_frame(0, 2 * MIB, 0);

        frame.lease.flags |= flags;
        send_frame(fd, &frame, MESSAGE_LEASE, serial);
}

/* The daemon finds the whole group when it goes on. Its last part has all refused: a group takes no block that is
 * mapped already. */
static uint64_t n_steps_of_group(int fd, unsigned n_parts)
{
        uint64_t n_before = n_steps();

        daemon_suspend(&gpumemd);
        for (unsigned part = 0; part < n_parts; part++)
                send_part(fd, part < n_parts - 1 ? PROTO_LEASE_MORE : PROTO_LEASE_KNOWN, 1 + part);
        daemon_resume(&gpumemd);
        for (unsigned part = 0; part < n_parts; part++)
                (void)expect(fd, MESSAGE_ERROR);
        return n_steps() - n_before;
}

static uint64_t n_steps_of_groups(int fd, unsigned n_parts)
{
        uint64_t n = 0;

        for (unsigned i = 0; i < N_GROUPS; i++)
                n += n_steps_of_group(fd, n_parts);
        return n;
}

/* A part takes a step, and one in which the queues are served. The step of the last part sends the answers to a small group,
 * and of a large one some: the others are some in a step. */
TEST(the_answers_to_a_group_are_several_steps)
{
        int fd = connect_for_groups();
        uint64_t n_of_small = n_steps_of_groups(fd, N_FEW_PARTS);
        uint64_t n_of_parts = 2 * N_GROUPS * (N_PARTS - N_FEW_PARTS);

        ck_assert_uint_ge(n_steps_of_groups(fd, N_PARTS), n_of_small + n_of_parts + 2 * N_GROUPS);
}

/* As many as find a place in front of the daemon. */
#define N_IN_FRONT 5

#define N_TIMES 8

static void come_and_go(void)
{
        for (unsigned i = 0; i < N_IN_FRONT; i++) {
                int fd = connect_raw();

                closep(&fd);
        }
}

/* They come and go while the daemon stands still, and take no step then. The node has some of its own. */
TEST(who_has_gone_is_not_let_in)
{
        uint64_t n_before = n_steps();

        for (unsigned i = 0; i < N_TIMES; i++) {
                daemon_suspend(&gpumemd);
                come_and_go();
                daemon_resume(&gpumemd);
                (void)daemon_quiet_fds(&gpumemd);
        }
        ck_assert_uint_lt(n_steps() - n_before, N_TIMES * N_IN_FRONT);
}

#define N_LEFT 60 /* frames of each */

/* The process hangs up with many frames unread, and reconnects. Its new connection is not served before they are read,
 * and each of them is a step. */
TEST(what_a_process_left_is_a_step_for_each_frame)
{
        struct frame hello = hello_frame(), again = hello_frame();
        int before = connect_raw(), after = connect_raw();
        uint64_t n_before;

        send_frame(before, &hello, MESSAGE_HELLO, 1);
        again.hello.incarnation = expect(before, MESSAGE_WELCOME).welcome.incarnation;
        (void)daemon_quiet_fds(&gpumemd);
        n_before = n_steps();
        daemon_suspend(&gpumemd);
        send_frame(after, &again, MESSAGE_HELLO, 1);
        for (unsigned i = 0; i < N_BUSY; i++) {
                send_peaks(busy[i], N_LEFT);
                ck_assert_int_eq(shutdown(busy[i], SHUT_RDWR), 0);
        }
        daemon_resume(&gpumemd);
        (void)expect(after, MESSAGE_WELCOME);
        ck_assert_uint_ge(n_steps() - n_before, N_BUSY * N_LEFT);
}

/* The answer to its last question takes several steps, and its end stands behind that. Its charge ends with it, as it says
 * that it holds nothing. */
TEST(what_a_process_left_is_over_before_it_is_served_again)
{
        struct frame hello = hello_frame(), again = hello_frame(), question = FRAME_NULL;
        int before = connect_raw(), after;

        begin_many();
        send_frame(before, &hello, MESSAGE_HELLO, 1);
        again.hello.incarnation = expect(before, MESSAGE_WELCOME).welcome.incarnation;
        (void)take_lease(before, 2 * MIB);
        after = connect_raw();
        (void)daemon_quiet_fds(&gpumemd);
        daemon_suspend(&gpumemd);
        send_frame(after, &again, MESSAGE_HELLO, 1);
        send_frame(before, &question, MESSAGE_CLIENTS, 2);
        ck_assert_int_eq(shutdown(before, SHUT_RDWR), 0);
        daemon_resume(&gpumemd);
        (void)expect(after, MESSAGE_WELCOME);
        daemon_await(FIGURE_charged, 0);
        daemon_free_all();
}

/* It continues the one that is charged what it says that it holds, though another one was left later. */
TEST(a_connection_continues_one_of_those_that_its_process_left)
{
        struct frame hello = hello_frame(), again = hello_frame(), held = FRAME_NULL;
        int first = connect_raw(), second = connect_raw(), after = connect_raw();

        send_frame(first, &hello, MESSAGE_HELLO, 1);
        again.hello.incarnation = expect(first, MESSAGE_WELCOME).welcome.incarnation;
        send_frame(second, &hello, MESSAGE_HELLO, 1);
        (void)expect(second, MESSAGE_WELCOME);
        (void)take_lease(first, 2 * MIB);
        (void)take_lease(second, 4 * MIB);
        ck_assert_int_eq(shutdown(first, SHUT_RDWR), 0);
        ck_assert_int_eq(shutdown(second, SHUT_RDWR), 0);
        daemon_await(FIGURE_lingering, 6 * MIB);
        again.hello.n_held_bytes = held.held.n_bytes = 2 * MIB;
        send_frame(after, &again, MESSAGE_HELLO, 1);
        (void)expect(after, MESSAGE_WELCOME);
        send_frame(after, &held, MESSAGE_HELD, 2);
        daemon_await(FIGURE_declared, 2 * MIB);
        daemon_await(FIGURE_lingering, 4 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), 6 * MIB);
        /* One that holds nothing ends what is left of another. */
        ck_assert_int_eq(shutdown(after, SHUT_RDWR), 0);
        again.hello.n_held_bytes = 0;
        for (unsigned i = 0; i < 2; i++) {
                int fd = connect_raw();

                send_frame(fd, &again, MESSAGE_HELLO, 1);
                (void)expect(fd, MESSAGE_WELCOME);
        }
        daemon_await(FIGURE_charged, 0);
}

#define N_ANSWERS \
        335 /* more than a socket takes, and as many more as the daemon queues before it reads no more */
#define N_NOTICES 30
#define N_DEAF    4

/* Clients do not read their answers, nor that their idle leases are taken. */
static void let_frames_queue_up(struct party *deaf, struct message_leased *leases)
{
        struct frame frame = FRAME_NULL;
        int fd = connect_ready();

        for (unsigned i = 0; i < N_DEAF * N_NOTICES; i++)
                leases[i] = party_lease(&deaf[i % N_DEAF], 0, 2 * MIB);
        for (unsigned i = 0; i < N_DEAF * N_NOTICES; i++)
                party_mark_idle(&deaf[i % N_DEAF], &leases[i]);
        for (unsigned i = 0; i < N_DEAF; i++)
                send_peaks(deaf[i].fd, N_ANSWERS);
        (void)daemon_quiet_fds(&gpumemd);
        frame.free_all_blocks.scope = PROTO_SCOPE_TENANT;
        send_frame(fd, &frame, MESSAGE_FREE_ALL_BLOCKS, 1);
        (void)daemon_quiet_fds(&gpumemd);
        closep(&fd);
}

/* All that the socket has. */
static unsigned read_all(const struct party *party)
{
        struct fdset fds = FDSET_NULL;
        struct frame frame;
        unsigned n = 0, n_bytes = 0;

        for (; ioctl(party->fd, SIOCINQ, &n_bytes) == 0 && n_bytes > 0; n++)
                ck_assert_int_eq(receive(party->fd, &frame, &fds), 0);
        return n;
}

#define N_SENT_A_STEP 16

static unsigned read_all_of(const struct party *deaf)
{
        unsigned n = 0;

        for (unsigned i = 0; i < N_DEAF; i++)
                n += read_all(&deaf[i]);
        return n;
}

/* They read all at once, and then the sockets take what has queued up. */
TEST(what_has_queued_up_is_sent_in_several_steps)
{
        struct message_leased leases[N_DEAF * N_NOTICES];
        struct party deaf[N_DEAF];
        uint64_t n_first, n_before, n;
        unsigned n_sent;

        for (unsigned i = 0; i < N_DEAF; i++)
                deaf[i] = party_join();
        let_frames_queue_up(deaf, leases);
        n_first = n_steps();
        n_before = n_steps();
        daemon_suspend(&gpumemd);
        ck_assert_uint_ge(read_all_of(deaf), N_DEAF * 100);
        daemon_resume(&gpumemd);
        (void)daemon_quiet_fds(&gpumemd);
        n = n_steps() - n_before - (n_before - n_first);
        n_sent = read_all_of(deaf);
        ck_assert_uint_ge(n_sent, N_DEAF * N_NOTICES);
        ck_assert_uint_ge(n, n_sent / N_SENT_A_STEP);
        for (unsigned i = 0; i < N_DEAF * N_NOTICES; i++)
                party_unmapped(&deaf[i % N_DEAF], leases[i].lease);
        daemon_await(FIGURE_lingering, 0);
        for (unsigned i = 0; i < N_DEAF; i++)
                party_leave(&deaf[i]);
}

static void must_tell(void)
{
        struct message_loop_is first = daemon_loop(), second = daemon_loop();

        ck_assert_uint_ne(first.steps, 0);
        ck_assert_uint_gt(second.steps, first.steps);
        ck_assert_uint_ge(second.late_steps, first.late_steps);
        ck_assert_uint_le(second.late_steps, second.steps);
        ck_assert_uint_eq(second.late_after, 100000);
        ck_assert_uint_ge(second.longest_step, first.longest_step);
        ck_assert_uint_ge(second.busy, second.longest_step);
        ck_assert_uint_gt(second.busy, first.busy);
        ck_assert_uint_gt(second.age, first.age);
        ck_assert_uint_le(second.busy, second.age);
}

static void tell_stranger(const void *unused)
{
        (void)unused;
        must_tell();
}

/* Also of others' work, as a sum. */
TEST(every_client_is_told_what_the_loop_has_done)
{
        must_tell();
        daemon_admit_all(&gpumemd);
        if (geteuid() == 0)
                as_user(STRANGER, tell_stranger, NULL);
}

TESTS_MAIN("steps", .limit_s = 120, .start = start, .stop = stop)
