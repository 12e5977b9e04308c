/* What a client may send that it should not: each is answered with its own error, ends at most its
 * own connection, and leaves nothing behind. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fdset.h"
#include "base/size.h"
#include "gpumem.h"
#include "proto/address.h"
#include "proto/wire.h"
#include "tests/live/daemon.h"
#include "tests/suite.h"

static struct daemon gpumemd;
static unsigned n_fds_before;

static int connect_raw(void)
{
        struct sockaddr_un address;
        struct timeval patience = {.tv_sec = 20};
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

        ck_assert_int_eq(address_to_connect(gpumemd.socket, &address), 0);
        ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
        return fd;
}

static int receive(int fd, struct frame *ret_frame, struct fdset *ret_fds)
{
        struct proto_reason reason;

        return wire_receive(fd, FROM_DAEMON, ret_frame, ret_fds, &reason);
}

/* Receives one frame and lets its fds go. */
static struct frame expect(int fd, enum message_kind kind)
{
        struct fdset fds = FDSET_NULL;
        struct frame frame;

        ck_assert_int_eq(receive(fd, &frame, &fds), 0);
        ck_assert_msg(frame.kind == kind, "%s came, not %s: %s", proto_name(frame.kind),
                      proto_name(kind), frame.kind == MESSAGE_ERROR ? frame.error.text : "");
        fdset_deinit(&fds);
        return frame;
}

static void expect_error(int fd, uint32_t serial, enum gpumem_error code)
{
        struct frame frame = expect(fd, MESSAGE_ERROR);

        ck_assert_uint_eq(frame.serial, serial);
        ck_assert_msg(frame.error.code == code, "\"%s\": %s", frame.error.text,
                      gpumem_strerror((int)frame.error.code));
        ck_assert_str_ne(frame.error.text, "");
}

static void expect_end(int fd)
{
        struct fdset fds = FDSET_NULL;
        struct frame frame;

        ck_assert_int_eq(receive(fd, &frame, &fds), GPUMEM_E_DISCONNECTED);
}

static void send_bytes(int fd, const void *bytes, size_t n_bytes)
{
        ck_assert_int_eq(send(fd, bytes, n_bytes, MSG_NOSIGNAL), (ssize_t)n_bytes);
}

static void send_frame(int fd, struct frame *frame, enum message_kind kind, uint32_t serial)
{
        proto_seal(frame, kind, serial, 0);
        ck_assert_int_eq(wire_send(fd, frame, NULL), 0);
}

static struct frame hello_frame(void)
{
        struct frame frame = FRAME_NULL;

        frame.hello = (struct message_hello){.magic = PROTO_MAGIC, .version = PROTO_VERSION};
        proto_put_text(frame.hello.program, sizeof(frame.hello.program), "test");
        proto_seal(&frame, MESSAGE_HELLO, 1, 0);
        return frame;
}

static int connect_ready(void)
{
        struct frame hello = hello_frame();
        int fd = connect_raw();

        send_frame(fd, &hello, MESSAGE_HELLO, 1);
        (void)expect(fd, MESSAGE_WELCOME);
        return fd;
}

static struct frame lease_frame(uint32_t pool, uint64_t n_bytes, uint32_t wait_ms)
{
        struct frame frame = FRAME_NULL;

        frame.lease = (struct message_lease){.n_bytes = n_bytes, .pool = pool, .wait_ms = wait_ms};
        return frame;
}

static uint64_t take_lease(int fd, uint64_t n_bytes)
{
        struct frame frame = lease_frame(0, n_bytes, 0);

        send_frame(fd, &frame, MESSAGE_LEASE, 100);
        return expect(fd, MESSAGE_LEASED).leased.lease;
}

static void give_back(int fd, uint64_t lease, uint32_t flags, uint32_t serial)
{
        struct frame frame = FRAME_NULL;

        frame.return_lease.lease = lease;
        frame.return_lease.flags = flags;
        send_frame(fd, &frame, MESSAGE_RETURN, serial);
}

static void start(void)
{
        static const char *const options[] = {"--device-bytes", "256MiB", NULL};
        int fd;

        daemon_start(&gpumemd, "devices=1,bytes=256MiB", options);
        /* A driver opens files of its own at its first work. */
        fd = connect_ready();
        give_back(fd, take_lease(fd, 2 * MIB), PROTO_RETURN_UNMAPPED, 2);
        closep(&fd);
        daemon_await(FIGURE_charged, 0);
        daemon_free_all();
        n_fds_before = daemon_quiet_fds(&gpumemd);
}

/* Whatever a test did, the daemon serves on and has nothing of it left. */
static void stop(void)
{
        daemon_await(FIGURE_charged, 0);
        daemon_free_all();
        daemon_await(FIGURE_reserved, 0);
        ck_assert_uint_eq(daemon_quiet_fds(&gpumemd), n_fds_before);
        daemon_stop(&gpumemd);
}

/* Frames that are no frames: after each the connection ends, with a reason. */
static size_t spoil(unsigned way, struct frame *frame)
{
        switch (way) {
        case 0:
                return frame->n_bytes - 1; /* cut short */
        case 1:
                return 7; /* less than a header */
        case 2:
                frame->n_bytes += 8;
                return frame->n_bytes; /* longer than the message */
        case 3:
                frame->flags = 1; /* reserved bits */
                return frame->n_bytes;
        case 4:
                frame->n_fds = 1; /* a fd that did not come */
                return frame->n_bytes;
        case 5:
                frame->return_lease.lease = 1;
                frame->return_lease.flags = 0;
                frame->return_lease.reserved = 1;
                proto_seal(frame, MESSAGE_RETURN, 2, 0);
                return frame->n_bytes;
        case 6:
                frame->lease.properties = 1u << 31;
                return frame->n_bytes;
        case 7:
                frame->kind = MESSAGE_LEASED; /* the daemon's word */
                return frame->n_bytes;
        default:
                return 0; /* nothing at all */
        }
}

START_TEST(a_malformed_frame_ends_its_connection_only)
{
        struct frame lease = lease_frame(0, 2 * MIB, 0);
        int fd = connect_ready(), other = connect_ready();
        size_t n_bytes;

        proto_seal(&lease, MESSAGE_LEASE, 2, 0);
        n_bytes = spoil((unsigned)_i, &lease);
        send_bytes(fd, &lease, n_bytes);
        expect_error(fd, 0, GPUMEM_E_BAD_FRAME);
        expect_end(fd);
        give_back(other, take_lease(other, 2 * MIB), PROTO_RETURN_UNMAPPED, 3);
        closep(&fd);
        closep(&other);
}
END_TEST

START_TEST(a_huge_frame_ends_its_connection_only)
{
        static char bytes[65536];
        int fd = connect_ready();

        send_bytes(fd, bytes, sizeof(bytes));
        expect_error(fd, 0, GPUMEM_E_BAD_FRAME);
        expect_end(fd);
        closep(&fd);
}
END_TEST

START_TEST(fds_from_a_client_are_dropped_with_it)
{
        struct frame frame = FRAME_NULL;
        int fd = connect_ready(), file = open("/dev/null", O_RDONLY | O_CLOEXEC), r;

        proto_seal(&frame, MESSAGE_STATS, 2, 0);
        frame.n_fds = 1;
        r = wire_send(fd, &frame, &file);
        /* Linux 6.16 lets the daemon forbid it: then nothing is sent at all. */
        ck_assert(r == 0 || r == -EPERM);
        if (r == 0) {
                expect_error(fd, 0, GPUMEM_E_BAD_FRAME);
                expect_end(fd);
        }
        closep(&fd);
        closep(&file);
}
END_TEST

/* Hangs up with an answer unread: what it had sent before counts all the same. */
START_TEST(what_was_sent_before_a_reset_counts)
{
        struct frame frame = FRAME_NULL;
        int fd = connect_ready();
        uint64_t lease = take_lease(fd, 4 * MIB);

        send_frame(fd, &frame, MESSAGE_POOLS, 7);
        give_back(fd, lease, PROTO_RETURN_UNMAPPED, 8);
        closep(&fd);
        daemon_await(FIGURE_cached, 4 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_lingering), 0);
}
END_TEST

START_TEST(the_first_frame_is_hello)
{
        struct frame frame = FRAME_NULL;
        int fd = connect_raw();

        send_frame(fd, &frame, MESSAGE_STATS, 2);
        expect_error(fd, 2, GPUMEM_E_BAD_FRAME);
        expect_end(fd);
        closep(&fd);
}
END_TEST

START_TEST(hello_comes_once)
{
        struct frame hello = hello_frame();
        int fd = connect_ready();

        send_frame(fd, &hello, MESSAGE_HELLO, 2);
        expect_error(fd, 2, GPUMEM_E_BAD_FRAME);
        expect_end(fd);
        closep(&fd);
}
END_TEST

START_TEST(a_wrong_magic_is_no_hello)
{
        struct frame hello = hello_frame();
        int fd = connect_raw();

        hello.hello.magic++;
        send_bytes(fd, &hello, hello.n_bytes);
        expect_error(fd, 0, GPUMEM_E_BAD_FRAME);
        expect_end(fd);
        closep(&fd);
}
END_TEST

START_TEST(a_client_of_a_later_version_is_welcome)
{
        struct frame hello = hello_frame();
        int fd = connect_raw();

        hello.hello.version = UINT32_MAX;
        hello.hello.features = UINT64_MAX;
        send_frame(fd, &hello, MESSAGE_HELLO, 1);
        hello = expect(fd, MESSAGE_WELCOME);
        ck_assert_uint_eq(hello.welcome.version, PROTO_VERSION);
        ck_assert_uint_eq(hello.welcome.features, PROTO_FEATURES);
        closep(&fd);
}
END_TEST

START_TEST(an_unknown_kind_is_answered_and_no_more)
{
        struct frame frame = FRAME_NULL;
        int fd = connect_ready();

        proto_seal(&frame, MESSAGE_STATS, 2, 0);
        frame.kind = 0x7001;
        send_bytes(fd, &frame, frame.n_bytes);
        expect_error(fd, 2, GPUMEM_E_UNKNOWN_KIND);
        send_frame(fd, &frame, MESSAGE_STATS, 3);
        ck_assert_uint_eq(expect(fd, MESSAGE_STATS_REPLY).serial, 3);
        closep(&fd);
}
END_TEST

/* Well-formed requests that cannot be: the connection goes on. */
START_TEST(impossible_requests_are_refused)
{
        static const struct {
                uint32_t pool;
                uint64_t n_bytes;
                enum gpumem_error code;
        } cases[] = {
                {0, 0, GPUMEM_E_BAD_REQUEST},       {0, MIB, GPUMEM_E_BAD_REQUEST},
                {0, 512 * MIB, GPUMEM_E_TOO_LARGE}, {0, UINT64_MAX, GPUMEM_E_BAD_REQUEST},
                {99, 2 * MIB, GPUMEM_E_NO_POOL},    {UINT32_MAX, 2 * MIB, GPUMEM_E_NO_POOL},
        };
        int fd = connect_ready();

        for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct frame frame = lease_frame(cases[i].pool, cases[i].n_bytes, 0);

                send_frame(fd, &frame, MESSAGE_LEASE, 10 + i);
                expect_error(fd, 10 + i, cases[i].code);
        }
        closep(&fd);
}
END_TEST

START_TEST(foreign_leases_are_not_given_back)
{
        int owner = connect_ready(), other = connect_ready();
        uint64_t lease = take_lease(owner, 2 * MIB);

        give_back(other, lease, PROTO_RETURN_UNMAPPED, 3);
        expect_error(other, 3, GPUMEM_E_NO_LEASE);
        ck_assert_uint_eq(daemon_figure(FIGURE_leased), 2 * MIB);
        give_back(owner, lease, PROTO_RETURN_UNMAPPED, 3);
        give_back(owner, lease, PROTO_RETURN_UNMAPPED, 4);
        expect_error(owner, 4, GPUMEM_E_NO_LEASE);
        ck_assert_uint_eq(daemon_figure(FIGURE_leased), 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_cached), 2 * MIB);
        closep(&owner);
        closep(&other);
}
END_TEST

/* Given back but still mapped: cached, and lingering once it has gone to the driver. */
START_TEST(a_block_lingers_until_it_is_unmapped)
{
        struct frame frame = FRAME_NULL;
        int fd = connect_ready();
        uint64_t lease = take_lease(fd, 4 * MIB);

        give_back(fd, lease, 0, 2);
        frame.free_all_blocks.scope = PROTO_SCOPE_TENANT;
        frame.free_all_blocks.pool = PROTO_ALL_POOLS;
        send_frame(fd, &frame, MESSAGE_FREE_ALL_BLOCKS, 3);
        ck_assert_uint_eq(expect(fd, MESSAGE_FREED).freed.n_bytes, 4 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_lingering), 4 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), 4 * MIB);
        frame = (struct frame)FRAME_NULL;
        frame.unmapped.lease = lease;
        send_frame(fd, &frame, MESSAGE_UNMAPPED, 4);
        daemon_await(FIGURE_lingering, 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), 0);
        send_frame(fd, &frame, MESSAGE_UNMAPPED, 5);
        expect_error(fd, 5, GPUMEM_E_NO_LEASE);
        closep(&fd);
}
END_TEST

START_TEST(a_waiting_lease_is_cancelled)
{
        struct frame frame = lease_frame(0, 2 * MIB, 60000);
        int owner = connect_ready(), other = connect_ready();
        uint64_t lease = take_lease(owner, 256 * MIB);

        send_frame(other, &frame, MESSAGE_LEASE, 5);
        /* Waiting holds nothing up. */
        frame = (struct frame)FRAME_NULL;
        send_frame(other, &frame, MESSAGE_POOLS, 6);
        ck_assert_uint_eq(expect(other, MESSAGE_POOLS_REPLY).serial, 6);
        ck_assert_uint_eq(daemon_figure(FIGURE_waiting), 1);
        frame.cancel.request = 5;
        send_frame(other, &frame, MESSAGE_CANCEL, 7);
        expect_error(other, 5, GPUMEM_E_CANCELLED);
        ck_assert_uint_eq(daemon_figure(FIGURE_waiting), 0);
        give_back(owner, lease, PROTO_RETURN_UNMAPPED, 8);
        closep(&owner);
        closep(&other);
}
END_TEST

START_TEST(a_waiting_lease_gets_what_comes_free)
{
        struct frame frame = lease_frame(0, 2 * MIB, 60000);
        int owner = connect_ready(), other = connect_ready();
        uint64_t lease = take_lease(owner, 256 * MIB);

        send_frame(other, &frame, MESSAGE_LEASE, 5);
        daemon_await(FIGURE_waiting, 1);
        give_back(owner, lease, PROTO_RETURN_UNMAPPED, 8);
        frame = expect(other, MESSAGE_LEASED);
        ck_assert_uint_eq(frame.serial, 5);
        give_back(other, frame.leased.lease, PROTO_RETURN_UNMAPPED, 9);
        closep(&owner);
        closep(&other);
}
END_TEST

START_TEST(a_waiting_lease_is_refused_in_time)
{
        struct frame frame = lease_frame(0, 2 * MIB, 50);
        int owner = connect_ready(), other = connect_ready();
        uint64_t lease = take_lease(owner, 256 * MIB);

        send_frame(other, &frame, MESSAGE_LEASE, 5);
        expect_error(other, 5, GPUMEM_E_TIMED_OUT);
        frame.lease.wait_ms = 0;
        send_frame(other, &frame, MESSAGE_LEASE, 6);
        expect_error(other, 6, GPUMEM_E_REFUSED);
        give_back(owner, lease, PROTO_RETURN_UNMAPPED, 7);
        closep(&owner);
        closep(&other);
}
END_TEST

/* A process that closes its socket and lives on may have the block mapped: its charge stands until
 * it has ended too. */
START_TEST(a_charge_ends_with_connection_and_process)
{
        int ends[2], fd;
        char byte;
        pid_t pid;

        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        pid = fork();
        if (pid == 0) {
                fd = connect_ready();
                (void)take_lease(fd, 8 * MIB);
                closep(&fd);
                (void)read(ends[1], &byte, 1);
                _exit(0);
        }
        daemon_await(FIGURE_lingering, 8 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), 8 * MIB);
        ck_assert_int_eq(write(ends[0], "x", 1), 1);
        ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
        daemon_await(FIGURE_charged, 0);
        daemon_await(FIGURE_reserved, 0);
        closep(&ends[0]);
        closep(&ends[1]);
}
END_TEST

/* Given back but still mapped: the process may go on using it after its connection has ended. */
START_TEST(a_mapping_outlives_its_connection)
{
        int ends[2], fd;
        char byte;
        pid_t pid;

        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        pid = fork();
        if (pid == 0) {
                fd = connect_ready();
                give_back(fd, take_lease(fd, 8 * MIB), 0, 3);
                closep(&fd);
                (void)read(ends[1], &byte, 1);
                _exit(0);
        }
        daemon_await(FIGURE_cached, 8 * MIB);
        daemon_free_all();
        ck_assert_uint_eq(daemon_figure(FIGURE_lingering), 8 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), 8 * MIB);
        ck_assert_int_eq(write(ends[0], "x", 1), 1);
        ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
        daemon_await(FIGURE_charged, 0);
        daemon_await(FIGURE_reserved, 0);
        closep(&ends[0]);
        closep(&ends[1]);
}
END_TEST

/* The other way round: the process is dead, a forked child of it holds the connection. */
START_TEST(a_child_that_holds_the_connection_holds_the_charge)
{
        int ends[2], fd;
        char byte;
        pid_t pid;

        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        pid = fork();
        if (pid == 0) {
                fd = connect_ready();
                (void)take_lease(fd, 8 * MIB);
                if (fork() == 0)
                        (void)read(ends[1], &byte, 1);
                _exit(0);
        }
        ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
        daemon_await(FIGURE_lingering, 8 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), 8 * MIB);
        ck_assert_int_eq(write(ends[0], "x", 1), 1);
        daemon_await(FIGURE_charged, 0);
        daemon_await(FIGURE_reserved, 0);
        closep(&ends[0]);
        closep(&ends[1]);
}
END_TEST

/* Asks for more than it reads, until the daemon reads nothing from it any more; nobody else waits, and
 * no fds are kept for it. When it hangs up, with all that unread, nothing of it stays. */
START_TEST(a_client_that_never_reads_harms_nobody)
{
        struct frame frame = FRAME_NULL;
        int fd = connect_ready(), other = connect_ready();

        ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
        proto_seal(&frame, MESSAGE_STATS, 2, 0);
        for (unsigned n_full = 0; n_full < 20; n_full++) {
                while (wire_send(fd, &frame, NULL) == 0) {
                }
                sleep_ms(5);
        }
        ck_assert_uint_lt(daemon_quiet_fds(&gpumemd), n_fds_before + 10);
        send_frame(other, &frame, MESSAGE_STATS, 3);
        ck_assert_uint_eq(expect(other, MESSAGE_STATS_REPLY).serial, 3);
        closep(&fd);
        closep(&other);
}
END_TEST

START_TEST(noise_never_harms_others)
{
        unsigned seed = 7;
        int other = connect_ready();

        for (unsigned round = 0; round < 300; round++) {
                char bytes[160];
                struct frame frame = hello_frame();
                int fd = connect_raw();

                memcpy(bytes, &frame,
                       sizeof(frame) < sizeof(bytes) ? sizeof(frame) : sizeof(bytes));
                for (unsigned i = 0; i < 4; i++)
                        bytes[(unsigned)rand_r(&seed) % frame.n_bytes] = (char)rand_r(&seed);
                send_bytes(fd, bytes, frame.n_bytes);
                closep(&fd);
        }
        give_back(other, take_lease(other, 2 * MIB), PROTO_RETURN_UNMAPPED, 3);
        closep(&other);
}
END_TEST

int main(void)
{
        Suite *suite = suite_create("frames");
        TCase *tests = tcase_create("frames");

        tcase_set_timeout(tests, 60);
        tcase_add_checked_fixture(tests, start, stop);
        tcase_add_loop_test(tests, a_malformed_frame_ends_its_connection_only, 0, 9);
        tcase_add_test(tests, a_huge_frame_ends_its_connection_only);
        tcase_add_test(tests, fds_from_a_client_are_dropped_with_it);
        tcase_add_test(tests, what_was_sent_before_a_reset_counts);
        tcase_add_test(tests, the_first_frame_is_hello);
        tcase_add_test(tests, hello_comes_once);
        tcase_add_test(tests, a_wrong_magic_is_no_hello);
        tcase_add_test(tests, a_client_of_a_later_version_is_welcome);
        tcase_add_test(tests, an_unknown_kind_is_answered_and_no_more);
        tcase_add_test(tests, impossible_requests_are_refused);
        tcase_add_test(tests, foreign_leases_are_not_given_back);
        tcase_add_test(tests, a_block_lingers_until_it_is_unmapped);
        tcase_add_test(tests, a_waiting_lease_is_cancelled);
        tcase_add_test(tests, a_waiting_lease_gets_what_comes_free);
        tcase_add_test(tests, a_waiting_lease_is_refused_in_time);
        tcase_add_test(tests, a_charge_ends_with_connection_and_process);
        tcase_add_test(tests, a_mapping_outlives_its_connection);
        tcase_add_test(tests, a_child_that_holds_the_connection_holds_the_charge);
        tcase_add_test(tests, a_client_that_never_reads_harms_nobody);
        tcase_add_test(tests, noise_never_harms_others);
        suite_add_tcase(suite, tests);
        return run_suite(suite);
}
