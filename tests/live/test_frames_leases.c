/* SPDX-License-Identifier: Apache-2.0 */
/* Leases by hand: how long one waits, and whom it is charged to until when. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fdset.h"
#include "base/size.h"
#include "gpumem.h"
#include "proto/wire.h"
#include "tests/live/daemon.h"
#include "tests/live/frames_world.h"
#include "tests/suite.h"

/* Given back but still mapped: cached, and lingering once it has gone to the driver. */
TEST(a_block_lingers_until_it_is_unmapped)
{
        struct frame frame = FRAME_NULL;
        int fd = connect_ready();
        uint64_t lease = take_lease(fd, 4 * MIB);

        give_back(fd, lease, 0, 2);
        frame.free_all_blocks.scope = PROTO_SCOPE_TENANT;
        frame.free_all_blocks.pool = PROTO_ALL_POOLS;
        send_frame(fd, &frame, MESSAGE_FREE_ALL_BLOCKS, 3);
        ck_assert_uint_eq(expect(fd, MESSAGE_FREED).freed.n_bytes, 0);
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

TEST(a_waiting_lease_is_cancelled)
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

TEST(a_waiting_lease_gets_what_comes_free)
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

TEST(a_waiting_lease_is_refused_in_time)
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

/* A process that closes its socket and lives on may have the block mapped: its charge stands until
 * it has ended too. */
TEST(a_charge_ends_with_connection_and_process)
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

/* Given back but still mapped: the process may go on using it after its connection has ended. */
TEST(a_mapping_outlives_its_connection)
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

/* The other way round: the process is dead, a forked child of it holds the connection. */
TEST(a_child_that_holds_the_connection_holds_the_charge)
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

TESTS_MAIN("frames_leases", .limit_s = 60, .start = frames_start, .stop = frames_stop)
