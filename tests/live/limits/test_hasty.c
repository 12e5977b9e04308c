/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon does not read from a client that exceeds its tenant's rate: every frame counts, but the end of
 * the connection or the process is still noticed. The rate is one request a second and two at once, so a
 * client is held back as long as a test looks. */
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include "client/connection/rows.h"
#include "tests/live/support/world.h"
#include "tests/live/worlds/frames_world.h"

/* After so many turns the daemon has taken all that it will. */
#define N_TURNS     20
#define N_HASTY     90
#define N_NEWCOMERS 40
#define NO_KIND     0x7001

static struct link *admin;

static void start(void)
{
        daemon_start_configured(&gpumemd, "devices=1,bytes=256MiB",
                                OPTIONS("--device-bytes", "64MiB"),
                                "{\"each_user\": {\"requests_per_second\": 1},"
                                " \"limits\": {\"client\": {\"leases\": 1000}}}");
        admin = open_admin_link("admin");
}

static void stop(void)
{
        link_free(admin);
        daemon_stop(&gpumemd);
}

/* Of the first pool, over the admin socket, which has no rate limit. */
static uint64_t charged_bytes(void)
{
        struct frame request = FRAME_NULL, reply;
        struct fdset fds = FDSET_NULL;
        uint64_t n_bytes;
        void *rows;

        ck_assert_int_eq(
                link_call(admin, &request, MESSAGE_STATS, MESSAGE_STATS_REPLY, &reply, &fds), 0);
        ck_assert_int_eq(rows_read(fds.fds[0], reply.stats_reply.n_rows,
                                   reply.stats_reply.n_row_bytes, sizeof(struct stats_row), &rows),
                         0);
        n_bytes = ((const struct stats_row *)rows)->charged;
        free(rows);
        fdset_deinit(&fds);
        return n_bytes;
}

static bool is_read(int fd)
{
        int n_bytes = 0;

        ck_assert_int_eq(ioctl(fd, SIOCOUTQ, &n_bytes), 0);
        return n_bytes == 0;
}

static void let_it_read(void)
{
        for (unsigned i = 0; i < N_TURNS; i++)
                (void)charged_bytes();
}

/* The daemon does not read from it. */
static void must_be_held(int fd)
{
        let_it_read();
        ck_assert(!is_read(fd));
}

static void cancel_nothing(int fd)
{
        struct frame frame = FRAME_NULL;

        frame.cancel.request = 4711;
        for (unsigned i = 0; i < N_HASTY; i++)
                send_frame(fd, &frame, MESSAGE_CANCEL, 100 + i);
}

/* After a refusal the daemon does not read before the client may ask again. */
static void ask(int fd, enum message_kind kind, struct frame *ret_reply)
{
        struct fdset fds = FDSET_NULL;

        do {
                struct frame frame = FRAME_NULL;

                if (kind == MESSAGE_BLOCKS)
                        frame.blocks.pool = PROTO_ALL_POOLS;
                if (kind == MESSAGE_FREE_ALL_BLOCKS)
                        frame.free_all_blocks = (struct message_free_all_blocks){
                                .scope = 1, .pool = PROTO_ALL_POOLS};
                send_frame(fd, &frame, kind, 2);
                ck_assert_int_eq(receive(fd, ret_reply, &fds), 0);
                fdset_deinit(&fds);
        } while (ret_reply->kind == MESSAGE_ERROR);
}

/* More replies than its socket takes, but fewer than the number at which the daemon stops reading. */
#define N_UNREAD 320

static void reset_peaks(int fd, unsigned n)
{
        struct frame frame = FRAME_NULL;

        frame.reset_peaks.scope = PROTO_SCOPE_TENANT;
        frame.reset_peaks.pool = PROTO_ALL_POOLS;
        for (unsigned i = 0; i < n; i++)
                send_frame(fd, &frame, MESSAGE_RESET_PEAKS, 1000 + i);
}

/* The loop reports when the socket takes more, also while nothing is read from it. */
TEST(what_waits_for_it_is_sent_while_it_is_held)
{
        struct frame reply;
        struct fdset fds = FDSET_NULL;
        int fd = connect_ready();

        daemon_configure(&gpumemd, "{\"each_user\": {\"requests_per_second\": 1000000}}");
        reset_peaks(fd, N_UNREAD);
        while (!is_read(fd))
                let_it_read();
        daemon_configure(&gpumemd, "{\"each_user\": {\"requests_per_second\": 1}}");
        do {
                cancel_nothing(fd);
                let_it_read();
        } while (is_read(fd));
        for (unsigned i = 0; i < N_UNREAD; i++) {
                ck_assert_int_eq(receive(fd, &reply, &fds), 0);
                ck_assert_uint_eq(reply.serial, 1000 + i);
        }
        ck_assert(!is_read(fd));
}

/* After one request another one would be allowed: the frame would be read and answered. */
static void expect_held(int fd)
{
        struct frame frame = FRAME_NULL;

        send_frame(fd, &frame, MESSAGE_STATS, 3);
        must_be_held(fd);
}

TEST(rows_that_are_told_are_paid_for)
{
        struct frame reply;
        int fd = connect_ready();

        for (unsigned i = 0; i < N_HASTY; i++)
                ck_assert_int_eq(free_all_over(admin, PROTO_SCOPE_NODE, PROTO_ALL_POOLS, NULL), 0);
        ask(fd, MESSAGE_EVENTS, &reply);
        ck_assert_uint_eq(reply.kind, MESSAGE_EVENTS_REPLY);
        ck_assert_uint_eq(reply.events_reply.n_rows, 64);
        expect_held(fd);
}

/* As many rows of each kind as cost three more requests. */
TEST(lists_are_paid_for, .to = 3)
{
        static const enum message_kind kinds[] = {MESSAGE_BLOCKS, MESSAGE_CLIENTS, MESSAGE_LIMITS};
        struct message_lease wanted = {.n_bytes = 2 * MIB};
        struct link *links[24];
        struct frame reply;
        int fd = connect_ready();

        for (unsigned i = 0; i < ARRAY_SIZE(links); i++) {
                struct message_leased leased;

                links[i] = open_admin_link("another");
                ck_assert_int_eq(lease_over(links[i], &wanted, &leased), 0);
        }
        ask(fd, kinds[_i], &reply);
        ck_assert_uint_ne(reply.kind, MESSAGE_ERROR);
        ck_assert_uint_ge(reply.clients_reply.n_rows, ARRAY_SIZE(links));
        expect_held(fd);
        closep(&fd);
        for (unsigned i = 0; i < ARRAY_SIZE(links); i++)
                link_free(links[i]);
}

/* Even if no lease is idle. */
TEST(looks_for_idle_leases_are_paid_for, .to = 2)
{
        static const enum message_kind kinds[] = {MESSAGE_FREE_ALL_BLOCKS, MESSAGE_STATS};
        struct message_lease wanted = {.n_bytes = 2 * MIB};
        struct message_leased leased;
        struct frame reply;
        int fd;

        stop();
        daemon_start_configured(&gpumemd, "devices=1,bytes=2GiB", OPTIONS("--device-bytes", "2GiB"),
                                "{\"each_user\": {\"requests_per_second\": 1}}");
        admin = open_admin_link("admin");
        for (unsigned i = 0; i < 800; i++)
                ck_assert_int_eq(lease_over(admin, &wanted, &leased), 0);
        fd = connect_ready();
        ask(fd, kinds[_i], &reply);
        ck_assert_uint_ne(reply.kind, MESSAGE_ERROR);
        expect_held(fd);
}

TEST(a_frame_of_no_kind_counts)
{
        struct frame frame = FRAME_NULL;
        int fd = connect_ready();

        for (unsigned i = 0; i < N_HASTY; i++) {
                proto_seal(&frame, MESSAGE_STATS, 100 + i, 0);
                frame.kind = NO_KIND;
                send_bytes(fd, &frame, frame.n_bytes);
        }
        must_be_held(fd);
        expect_error(fd, 100, GPUMEM_E_UNKNOWN_KIND);
}

TEST(a_hello_counts)
{
        struct frame hello = hello_frame();
        int fds[N_NEWCOMERS];
        unsigned n_held = 0;

        for (unsigned i = 0; i < N_NEWCOMERS; i++) {
                fds[i] = connect_raw();
                send_frame(fds[i], &hello, MESSAGE_HELLO, 1);
        }
        /* One connection is accepted in each turn. */
        for (unsigned i = 0; i < N_NEWCOMERS; i += N_TURNS / 2)
                let_it_read();
        for (unsigned i = 0; i < N_NEWCOMERS; i++)
                n_held += !is_read(fds[i]);
        ck_assert_uint_ge(n_held, 1);
}

/* A client whose HELLO is not read because of the rate limit has sent it in time. */
TEST(a_hello_that_is_held_is_in_time)
{
        struct frame hello = hello_frame();
        int fds[8];

        for (unsigned i = 0; i < ARRAY_SIZE(fds); i++) {
                fds[i] = connect_raw();
                send_frame(fds[i], &hello, MESSAGE_HELLO, 1);
        }
        for (unsigned i = 0; i < ARRAY_SIZE(fds); i++)
                (void)expect(fds[i], MESSAGE_WELCOME);
}

/* Memory that it returned before is taken, too; the client lives, so nothing else would bring it back. */
TEST(who_hangs_up_while_it_is_held_has_gone)
{
        int fd = connect_ready();
        uint64_t lease = take_lease(fd, 2 * MIB);

        cancel_nothing(fd);
        give_back(fd, lease, PROTO_RETURN_UNMAPPED, 3);
        let_it_read();
        ck_assert_uint_eq(charged_bytes(), 2 * MIB);
        closep(&fd);
        AWAIT(charged_bytes() == 0);
}

TEST(who_dies_while_it_is_held_leaves_nothing)
{
        int ready[2];
        char byte = 0;
        pid_t child;

        ck_assert_int_eq(pipe(ready), 0);
        child = fork();
        if (child == 0) {
                int fd = connect_ready();

                (void)take_lease(fd, 2 * MIB);
                cancel_nothing(fd);
                ck_assert_int_eq(write(ready[1], &byte, 1), 1);
                for (;;)
                        (void)pause();
        }
        ck_assert_int_eq(read(ready[0], &byte, 1), 1);
        let_it_read();
        ck_assert_uint_eq(charged_bytes(), 2 * MIB);
        child_kill(child);
        AWAIT(charged_bytes() == 0);
}

TESTS_MAIN("hasty", .limit_s = 60, .start = start, .stop = stop)
