/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that take too much of shared resources: connections, file descriptors, requests, the daemon's
 * time. Each is refused with the reason, and no other process is refused. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "tests/lingering.h"
#include "tests/live/support/old_kernel.h"
#include "tests/live/support/world.h"
#include "tests/live/worlds/frames_world.h"

#define NVML_MS 2000
#define N_NEVER 50
#define N_FLOOD 500
#define N_WAVE  50

/* The daemon's: for each connection, and for each user that has any. */
#define FDS_A_CONNECTION 2 /* without its board */

static void start_with(const char *configuration)
{
        unsigned nvml_ms = machine_is_emulated() ? AWAIT_MS : NVML_MS;

        daemon_start_configured(&gpumemd, "devices=1,bytes=256MiB",
                                OPTIONS("--device-bytes", "256MiB"), configuration);
        /* A thread loads NVML, if there is one, and keeps files of it open. */
        for (unsigned ms = 0; ms < nvml_ms && !daemon_figure(FIGURE_device); ms++)
                sleep_ms(1);
        n_fds_before = daemon_quiet_fds(&gpumemd);
}

static void start(void)
{
        start_with("{}");
}

static void await_fds(unsigned n)
{
        AWAIT(daemon_count_fds(&gpumemd) == n);
}

static void stop(void)
{
        hang_up();
        await_fds(n_fds_before);
        daemon_stop(&gpumemd);
}

static void await_end(int fd)
{
        struct pollfd events = {.fd = fd, .events = POLLRDHUP};

        ck_assert_int_eq(poll(&events, 1, AWAIT_MS), 1);
}

TEST(who_does_not_say_hello_is_sent_away)
{
        struct frame hello = hello_frame();
        int silent = connect_raw(), halved = connect_raw(), other = connect_ready();

        send_bytes(halved, &hello, hello.n_bytes / 2);
        expect_dropped(halved, 0, GPUMEM_E_BAD_FRAME);
        expect_dropped(silent, 0, GPUMEM_E_BAD_FRAME);
        must_serve(other);
}

/* Where clients can pass fds the daemon reads one frame at a time. */
static bool reads(uint64_t call)
{
        return call == SYS_recvmsg || call == SYS_recvmmsg;
}

/* Holds the daemon up where it is about to read from `fd`: it has seen already that there is something to
 * read, and when it continues it checks its deadlines first. After a signal, it might read first. */
static void hold_up_reading(int fd)
{
        struct frame frame = FRAME_NULL;
        struct __ptrace_syscall_info call = {0};
        int status, signal = 0;

        ck_assert_int_eq(ptrace(PTRACE_SEIZE, gpumemd.pid, NULL, PTRACE_O_TRACESYSGOOD), 0);
        ck_assert_int_eq(ptrace(PTRACE_INTERRUPT, gpumemd.pid, NULL, NULL), 0);
        ck_assert_int_eq(waitpid(gpumemd.pid, &status, __WALL), gpumemd.pid);
        send_frame(fd, &frame, MESSAGE_STATS, 77);
        while (call.op != PTRACE_SYSCALL_INFO_ENTRY || !reads(call.entry.nr)) {
                ck_assert_int_eq(ptrace(PTRACE_SYSCALL, gpumemd.pid, NULL, signal), 0);
                ck_assert_int_eq(waitpid(gpumemd.pid, &status, __WALL), gpumemd.pid);
                ck_assert(WIFSTOPPED(status));
                signal = WSTOPSIG(status) == (SIGTRAP | 0x80) ? 0 : WSTOPSIG(status);
                ck_assert_int_gt(ptrace(PTRACE_GET_SYSCALL_INFO, gpumemd.pid, sizeof(call), &call),
                                 0);
        }
}

/* Frames that came while the daemon was held up were in time. */
TEST(a_hello_is_in_time_though_the_daemon_is_not)
{
        struct frame hello = hello_frame();
        int other = connect_ready(), fd = connect_raw();

        await_fds(n_fds_before + 2 * FDS_A_CONNECTION);
        hold_up_reading(other);
        send_frame(fd, &hello, MESSAGE_HELLO, 1);
        sleep_ms(6000);
        ck_assert_int_eq(ptrace(PTRACE_DETACH, gpumemd.pid, NULL, NULL), 0);
        ck_assert_uint_eq(expect(other, MESSAGE_STATS_REPLY).serial, 77);
        (void)expect(fd, MESSAGE_WELCOME);
}

/* Until the daemon takes no more, although it had time: it has served the other client since. */
static void ask_in_vain(int fd, enum message_kind kind, int other)
{
        struct frame frame = FRAME_NULL;
        bool was_taken;

        ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
        proto_seal(&frame, kind, 2, 0);
        do {
                for (was_taken = false; frame_socket_send(fd, &frame, NULL) == 0; was_taken = true)
                        continue;
                must_serve(other);
                must_serve(other);
        } while (was_taken);
}

TEST(who_never_reads_is_sent_away)
{
        int greedy[N_NEVER], other = connect_ready();

        for (unsigned i = 0; i < N_NEVER; i++) {
                greedy[i] = connect_ready();
                ask_in_vain(greedy[i], i % 2 ? MESSAGE_STATS : MESSAGE_LIMITS, other);
        }
        must_serve(other);
        for (unsigned i = 0; i < N_NEVER; i++)
                await_end(greedy[i]);
        must_serve(other);
}

/* Accepted after HELLO, or refused with TOO_MANY. */
static bool is_welcome(int fd)
{
        struct frame hello = hello_frame(), reply;
        struct fdset fds = FDSET_NULL;

        proto_seal(&hello, MESSAGE_HELLO, 1, 0);
        (void)frame_socket_send(fd, &hello, NULL);
        ck_assert_int_eq(receive(fd, &reply, &fds), 0);
        fdset_deinit(&fds);
        if (reply.kind == MESSAGE_WELCOME)
                return true;
        ck_assert_uint_eq(reply.error.code, GPUMEM_E_TOO_MANY);
        return false;
}

TEST(a_user_has_so_many_connections)
{
        int fds[4], fd;

        daemon_stop(&gpumemd);
        start_with("{\"each_user\": {\"connections\": 4}}");
        for (unsigned i = 0; i < 4; i++)
                fds[i] = connect_ready();
        expect_dropped(connect_raw(), 0, GPUMEM_E_TOO_MANY);
        /* The administrator is accepted. */
        link_free(open_admin_link("admin"));
        must_serve(fds[0]);
        closep(&fds[3]);
        await_fds(n_fds_before + 3 * FDS_A_CONNECTION);
        fds[3] = connect_ready();
        daemon_configure(&gpumemd, "{\"each_user\": {\"connections\": 5}}");
        for (fd = connect_raw(); !is_welcome(fd); fd = connect_raw())
                closep(&fd);
}

/* All of them stay; in waves, since connections without HELLO are closed after a time. */
TEST(a_flood_of_connections_harms_nobody)
{
        static int fds[N_FLOOD];
        int other = connect_ready();
        unsigned n_in = 0;

        for (unsigned i = 0; i < N_FLOOD; i += N_WAVE) {
                for (unsigned j = i; j < i + N_WAVE; j++)
                        fds[j] = connect_raw();
                must_serve(other);
                for (unsigned j = i; j < i + N_WAVE; j++)
                        n_in += is_welcome(fds[j]);
        }
        ck_assert_uint_eq(n_in, 255);
        give_back(other, take_lease(other, 2 * MIB), PROTO_RETURN_UNMAPPED, 3);
        for (unsigned i = 0; i < N_FLOOD; i++)
                closep(&fds[i]);
        must_serve(other);
        closep(&other);
        daemon_await(FIGURE_charged, 0);
        daemon_free_all();
        n_fds_before = daemon_quiet_fds(&gpumemd);
}

#define N_GREEDY 40

/* However many connections the greedy one has, it is served about as often as the quiet one. If each connection counted,
 * all of its requests but the last few would be served before the quiet one's last. */
static void expect_quiet_served(uid_t uid)
{
        int greedy[N_GREEDY], quiet;
        pid_t child;

        daemon_stop(&gpumemd);
        daemon_start_configured(&gpumemd, "devices=1,bytes=2GiB", OPTIONS("--device-bytes", "2GiB"),
                                "{}");
        daemon_admit_all(&gpumemd);
        n_fds_before = daemon_quiet_fds(&gpumemd);
        quiet = connect_from_child(uid, &child);
        for (unsigned i = 0; i < N_GREEDY; i++)
                greedy[i] = connect_ready();
        fill_cache(quiet, N_IN_LINE);
        fill_cache(greedy[0], N_GREEDY * N_IN_LINE);
        ck_assert_uint_lt(count_served_before(quiet, greedy, N_GREEDY), N_GREEDY * N_IN_LINE / 2);
        for (unsigned i = 0; i < N_GREEDY; i++)
                closep(&greedy[i]);
        closep(&quiet);
        child_kill(child);
        daemon_await(FIGURE_charged, 0);
        daemon_free_all();
        n_fds_before = daemon_quiet_fds(&gpumemd);
}

TEST(a_process_with_many_connections_is_one_process)
{
        expect_quiet_served(geteuid());
}

TEST(a_user_with_many_connections_is_one_user, NEEDS_ROOT)
{
        expect_quiet_served(1000);
}

/* Half of them may be in flight; a tenant alone has a third of that half, one process of it a quarter. */
#define FEW_FDS 400
#define N_DEAF  7
#define N_ASKED 8 /* by each */

static void start_with_few_fds(void)
{
        const struct rlimit few = {FEW_FDS, FEW_FDS};

        daemon_stop(&gpumemd);
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
        start();
}

static bool is_connected(int fd)
{
        struct pollfd events = {.fd = fd, .events = POLLRDHUP};

        return poll(&events, 1, 0) == 0;
}

/* More answers are on their way than a tenant may have. Their process reads none. */
TEST(a_process_that_reads_nothing_leaves_room_for_answers_to_others)
{
        int deaf[N_DEAF], quiet;
        pid_t child;

        start_with_few_fds();
        for (unsigned i = 0; i < N_DEAF; i++) {
                struct frame hello = hello_frame();

                deaf[i] = connect_raw();
                send_frame(deaf[i], &hello, MESSAGE_HELLO, 1);
                for (unsigned k = 0; k < N_ASKED; k++) {
                        struct frame frame = lease_frame(0, 2 * MIB, 0);

                        send_frame(deaf[i], &frame, MESSAGE_LEASE, k);
                }
        }
        sleep_ms(500);
        quiet = connect_from_child(geteuid(), &child);
        must_serve(quiet);
        for (unsigned i = 0; i < N_DEAF; i++)
                ck_assert(is_connected(deaf[i]));
        closep(&quiet);
        child_kill(child);
        for (unsigned i = 0; i < N_DEAF; i++) {
                (void)expect(deaf[i], MESSAGE_WELCOME);
                for (unsigned k = 0; k < N_ASKED; k++)
                        give_back(deaf[i], await_lease(deaf[i]), PROTO_RETURN_UNMAPPED, k);
                closep(&deaf[i]);
        }
        daemon_await(FIGURE_charged, 0);
        daemon_free_all();
        n_fds_before = daemon_quiet_fds(&gpumemd);
}

#define N_READERS 20

/* All answers have been read, on connections on which nothing more is sent. Together they brought more fds than a process
 * may have on their way. */
TEST(what_was_read_leaves_room_for_the_same_process)
{
        int readers[N_READERS];

        start_with_few_fds();
        for (unsigned i = 0; i < N_READERS; i++) {
                readers[i] = connect_ready();
                for (unsigned k = 0; k < N_ASKED; k++)
                        must_serve(readers[i]);
        }
        for (unsigned i = 0; i < N_READERS; i++)
                closep(&readers[i]);
        daemon_await(FIGURE_charged, 0);
        daemon_free_all();
        n_fds_before = daemon_quiet_fds(&gpumemd);
}

#define FIRST_IN_TURN 2000
#define A_LATER_UID   3000
#define N_TRIED_MOST  (FEW_FDS / 4) /* so many connections there are at most */

/* What users do, one after the other. They read nothing. */
static const struct taking {
        unsigned n_users;
        unsigned n_tried; /* connections of each, more than it gets or fewer */
        unsigned n_asked; /* over each, for a reply with an fd */
} takings[] = {
        /* until connections are scarce, */
        {.n_users = 9, .n_tried = N_TRIED_MOST},
        /* until fds on their way are. */
        {.n_users = 20, .n_tried = 3, .n_asked = 40},
};

static int connect_as(uid_t uid, int (*connect_so)(void))
{
        int fd;

        ck_assert_int_eq(seteuid(uid), 0);
        fd = connect_so();
        ck_assert_int_eq(seteuid(getuid()), 0);
        return fd;
}

/* It may have been turned away already. */
static void ask_unread(int fd, unsigned n_asked)
{
        struct frame hello = hello_frame(), frame = FRAME_NULL;

        proto_seal(&hello, MESSAGE_HELLO, 1, 0);
        (void)frame_socket_send(fd, &hello, NULL);
        proto_seal(&frame, MESSAGE_STATS, 2, 0);
        for (unsigned i = 0; i < n_asked; i++)
                (void)frame_socket_send(fd, &frame, NULL);
}

/* How many connections the user has then. */
static unsigned take_what_it_may(uid_t uid, const struct taking *taking)
{
        int fds[N_TRIED_MOST];
        unsigned n = 0;

        for (unsigned i = 0; i < taking->n_tried; i++) {
                fds[i] = connect_as(uid, connect_raw);
                ask_unread(fds[i], taking->n_asked);
        }
        (void)daemon_quiet_fds(&gpumemd);
        for (unsigned i = 0; i < taking->n_tried; i++) {
                if (is_connected(fds[i]))
                        n++;
                else
                        closep(&fds[i]);
        }
        return n;
}

TEST(users_that_come_in_turn_leave_something_for_one_more, .to = ARRAY_SIZE(takings), NEEDS_ROOT)
{
        const struct taking *taking = &takings[_i];
        int fd;

        start_with_few_fds();
        daemon_admit_all(&gpumemd);
        for (unsigned i = 0; i < taking->n_users; i++)
                ck_assert_uint_ge(take_what_it_may(FIRST_IN_TURN + i, taking), 1);
        fd = connect_as(A_LATER_UID, connect_ready);
        must_serve(fd);
        give_back(fd, take_lease(fd, 2 * MIB), PROTO_RETURN_UNMAPPED, 2);
        must_serve(fd);
        hang_up();
        /* Until connections have gone, one that asks for figures leaves no room for the next. */
        (void)daemon_quiet_fds(&gpumemd);
        daemon_await(FIGURE_charged, 0);
        daemon_free_all();
        n_fds_before = daemon_quiet_fds(&gpumemd);
}

static pthread_barrier_t all_are_there;

static void *connect_at_once(void *argument)
{
        int *fd = argument;

        (void)pthread_barrier_wait(&all_are_there);
        *fd = connect_ready();
        return NULL;
}

/* As many as may be connected, or nearly. */
TEST(those_that_connect_at_one_time_are_let_in)
{
        enum { N_AT_ONCE = 30, N_ROUNDS = 4 };
        pthread_t threads[N_AT_ONCE];
        int fds[N_AT_ONCE];

        start_with_few_fds();
        ck_assert_int_eq(pthread_barrier_init(&all_are_there, NULL, N_AT_ONCE), 0);
        for (unsigned round = 0; round < N_ROUNDS; round++) {
                for (unsigned i = 0; i < N_AT_ONCE; i++)
                        ck_assert_int_eq(
                                pthread_create(&threads[i], NULL, connect_at_once, &fds[i]), 0);
                for (unsigned i = 0; i < N_AT_ONCE; i++) {
                        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
                        closep(&fds[i]);
                }
                await_fds(n_fds_before);
        }
        (void)pthread_barrier_destroy(&all_are_there);
}

/* The fastest that there is: its requests are neither refused nor held, and the administrator's come between. */
TEST(a_user_alone_may_ask_without_end)
{
        enum { N_ROUNDS = 4, N_A_ROUND = 250 };
        int fd = connect_ready();

        for (unsigned round = 0; round < N_ROUNDS; round++) {
                for (unsigned i = 0; i < N_A_ROUND; i++)
                        must_serve(fd);
                daemon_free_all();
        }
        closep(&fd);
        n_fds_before = daemon_quiet_fds(&gpumemd);
}

static void let_have_fds(rlim_t n)
{
        struct rlimit limit;

        ck_assert_int_eq(prlimit(gpumemd.pid, RLIMIT_NOFILE, NULL, &limit), 0);
        limit.rlim_cur = n < limit.rlim_max ? n : limit.rlim_max;
        ck_assert_int_eq(prlimit(gpumemd.pid, RLIMIT_NOFILE, &limit, NULL), 0);
}

/* With one more fd each time, so that each fd that a connection needs is once the missing one. */
TEST(without_fds_a_connection_is_told_so)
{
        int other = connect_ready(), fd;
        unsigned n_fds, n_refused = 0;
        bool is_in = false;

        (void)daemon_quiet_fds(&gpumemd);
        n_fds = daemon_count_files(&gpumemd) - 3;
        for (; !is_in; n_fds++) {
                let_have_fds(n_fds);
                fd = connect_raw();
                is_in = is_welcome(fd);
                n_refused += !is_in;
                closep(&fd);
                await_fds(n_fds_before + FDS_A_CONNECTION);
        }
        ck_assert_uint_ge(n_refused, 3);
        let_have_fds(RLIM_INFINITY);
        must_serve(other);
}

TEST(an_older_kernel_lets_nobody_pass_fds_either)
{
        int other, file = open("/dev/null", O_RDONLY | O_CLOEXEC);

        daemon_stop(&gpumemd);
        old_kernel_hide(HIDE_PASSRIGHTS);
        start();
        other = connect_ready();
        for (unsigned i = 0; i < 20; i++) {
                struct frame frame = i % 2 ? FRAME_NULL : hello_frame();
                int fds[] = {file, file, file}, fd = i % 2 ? connect_ready() : connect_raw();

                proto_seal(&frame, i % 2 ? MESSAGE_STATS : MESSAGE_HELLO, 2, 0);
                frame.n_fds = 3;
                ck_assert_int_eq(frame_socket_send(fd, &frame, fds), 0);
                expect_dropped(fd, 0, GPUMEM_E_BAD_FRAME);
        }
        must_serve(other);
}

/* The daemon has the last fd of a socket that takes an hour to close, with the frame that it reads, or with
 * one behind it that it never reads. */
TEST(what_they_pass_holds_nobody_up_there)
{
        struct frame hello = hello_frame();
        int fd, other, peers[30];

        daemon_stop(&gpumemd);
        old_kernel_hide(HIDE_PASSRIGHTS);
        start();
        other = connect_ready();
        for (unsigned i = 0; i < ARRAY_SIZE(peers); i++) {
                fd = i % 3 ? connect_raw() : connect_ready();
                daemon_suspend(&gpumemd);
                if (i % 3 == 2)
                        ck_assert_int_eq(send(fd, "", 1, 0), 1);
                peers[i] = lingering_send(fd, &hello, hello.n_bytes);
                daemon_resume(&gpumemd);
                expect_dropped(fd, 0, GPUMEM_E_BAD_FRAME);
                must_serve(other);
        }
}

TESTS_MAIN("greedy", .limit_s = 120, .start = start, .stop = stop)
