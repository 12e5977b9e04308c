/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong frames from clients: each is answered with its own error, ends at most its own connection, and
 * leaves nothing behind. Also leases: how long a request waits, and when a charge ends. */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "proto/refusal_text.h"
#include "tests/live/support/listed.h"
#include "tests/live/support/told.h"
#include "tests/live/support/world.h"
#include "tests/live/worlds/frames_world.h"

/* Frames that are no frames: after each the connection ends, with a reason. */
enum spoilt {
        CUT_SHORT,
        WITHOUT_HEADER,
        TOO_LONG,
        FLAGS,
        FD,
        RESERVED,
        PROPERTIES,
        DAEMONS_KIND,
        EMPTY,
        N_SPOILT
};

static size_t spoil(enum spoilt what, struct frame *frame)
{
        if (what == TOO_LONG)
                frame->n_bytes += 8;
        if (what == FLAGS)
                frame->flags = 1;
        if (what == FD)
                frame->n_fds = 1; /* which did not come */
        if (what == RESERVED) {
                frame->return_lease = (struct message_return_lease){.lease = 1, .reserved = 1};
                proto_seal(frame, MESSAGE_RETURN, 2, 0);
        }
        if (what == PROPERTIES)
                frame->lease.properties = 1u << 31;
        if (what == DAEMONS_KIND)
                frame->kind = MESSAGE_LEASED;
        if (what == EMPTY || what == WITHOUT_HEADER)
                return what == EMPTY ? 0 : 7;
        return frame->n_bytes - (what == CUT_SHORT);
}

TEST(a_malformed_frame_ends_its_connection_only, .to = N_SPOILT)
{
        struct frame lease = lease_frame(0, 2 * MIB, 0);
        int fd = connect_ready(), other = connect_ready();
        size_t n_bytes;

        proto_seal(&lease, MESSAGE_LEASE, 2, 0);
        n_bytes = spoil((enum spoilt)_i, &lease);
        send_bytes(fd, &lease, n_bytes);
        expect_dropped(fd, 0, GPUMEM_E_BAD_FRAME);
        give_back(other, take_lease(other, 2 * MIB), PROTO_RETURN_UNMAPPED, 3);
}

TEST(a_huge_frame_ends_its_connection_only)
{
        static char bytes[65536];
        int fd = connect_ready();

        send_bytes(fd, bytes, sizeof(bytes));
        expect_dropped(fd, 0, GPUMEM_E_BAD_FRAME);
}

/* Hangs up with an answer unread: what it had sent before counts all the same. */
TEST(what_was_sent_before_a_reset_counts)
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

/* Something else at first, HELLO twice, and one of another magic. */
TEST(a_wrong_hello_ends_its_connection, .to = 3)
{
        struct frame frame = _i ? hello_frame() : FRAME_NULL;
        int fd = _i == 1 ? connect_ready() : connect_raw();

        proto_seal(&frame, _i ? MESSAGE_HELLO : MESSAGE_STATS, 2, 0);
        if (_i == 2)
                frame.hello.magic++;
        send_bytes(fd, &frame, frame.n_bytes);
        expect_dropped(fd, _i == 2 ? 0 : 2, GPUMEM_E_BAD_FRAME);
}

TEST(a_client_of_a_later_version_is_welcome)
{
        struct frame hello = hello_frame();
        int fd = connect_raw();

        hello.hello.version = UINT32_MAX;
        hello.hello.features = UINT64_MAX;
        send_frame(fd, &hello, MESSAGE_HELLO, 1);
        hello = expect(fd, MESSAGE_WELCOME);
        ck_assert_uint_eq(hello.welcome.version, PROTO_VERSION);
        ck_assert_uint_eq(hello.welcome.features, PROTO_FEATURES);
}

TEST(an_unknown_kind_is_answered_and_no_more)
{
        struct frame frame = FRAME_NULL;
        int fd = connect_ready();

        proto_seal(&frame, MESSAGE_STATS, 2, 0);
        frame.kind = 0x7001;
        send_bytes(fd, &frame, frame.n_bytes);
        expect_error(fd, 2, GPUMEM_E_UNKNOWN_KIND);
        send_frame(fd, &frame, MESSAGE_STATS, 3);
        ck_assert_uint_eq(expect(fd, MESSAGE_STATS_REPLY).serial, 3);
}

/* What an older client cannot mean. */
TEST(registered_blocks_require_the_feature)
{
        static const uint32_t properties[] = {PROTO_PROPERTY_REGISTERED, PROTO_PROPERTY_RDMA,
                                              PROTO_PROPERTY_SHAREABLE | PROTO_PROPERTY_RDMA};
        int fd = connect_ready();

        for (uint32_t i = 0; i < ARRAY_SIZE(properties); i++) {
                struct frame lease = lease_frame(0, 2 * MIB, 0);

                lease.lease.properties = properties[i];
                send_frame(fd, &lease, MESSAGE_LEASE, 2 + i);
                expect_error(fd, 2 + i, GPUMEM_E_BAD_REQUEST);
        }
        give_back(fd, take_lease(fd, 2 * MIB), PROTO_RETURN_UNMAPPED, 9);
}

/* Well-formed requests that cannot be: the connection goes on. */
TEST(impossible_requests_are_refused)
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
}

TEST(foreign_leases_are_not_given_back)
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
}

/* Of one that has not read all the loop is told an error, and nothing after that. What it said before is more than
 * the daemon takes in a turn, and at its end it gives back what it had. */
TEST(who_hangs_up_having_said_much_is_heard_to_the_end)
{
        struct frame frame = FRAME_NULL;
        int fd = connect_ready(), other = connect_ready();
        uint64_t lease = take_lease(fd, 2 * MIB);
        char byte;

        send_frame(fd, &frame, MESSAGE_STATS, 2);
        ck_assert_int_eq(recv(fd, &byte, 1, MSG_PEEK), 1);
        daemon_suspend(&gpumemd);
        frame.cancel.request = 4711;
        for (unsigned i = 0; i < 50; i++)
                send_frame(fd, &frame, MESSAGE_CANCEL, 3 + i);
        give_back(fd, lease, PROTO_RETURN_UNMAPPED, 100);
        closep(&fd);
        daemon_resume(&gpumemd);
        give_back(other, take_lease(other, 2 * MIB), PROTO_RETURN_UNMAPPED, 3);
}

/* Fewer than a process may have connections (256): on a busy machine none has ended before the last one comes. */
#define N_NOISES 250

TEST(noise_never_harms_others)
{
        unsigned seed = 7;
        int other = connect_ready();

        for (unsigned round = 0; round < N_NOISES; round++) {
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
}

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
        frame = FRAME_NULL;
        frame.unmapped.lease = lease;
        send_frame(fd, &frame, MESSAGE_UNMAPPED, 4);
        daemon_await(FIGURE_lingering, 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), 0);
        send_frame(fd, &frame, MESSAGE_UNMAPPED, 5);
        expect_error(fd, 5, GPUMEM_E_NO_LEASE);
}

static int connect_with(uint64_t features)
{
        struct frame hello = hello_frame();
        int fd = connect_raw();

        hello.hello.features = features;
        send_frame(fd, &hello, MESSAGE_HELLO, 1);
        ck_assert_uint_eq(expect(fd, MESSAGE_WELCOME).welcome.features, features);
        return fd;
}

enum vain { OF_A_FULL_POOL, BEYOND_THE_POOL, OF_NO_POOL, OF_KNOWN_ONLY, OF_CACHED_ONLY, N_IN_VAIN };

static struct frame lease_in_vain(enum vain vain)
{
        struct frame lease = lease_frame(vain == OF_NO_POOL ? 99 : 0,
                                         vain == BEYOND_THE_POOL ? GIB : 128 * MIB, 0);

        if (vain == OF_KNOWN_ONLY)
                lease.lease.flags = PROTO_LEASE_KNOWN | PROTO_LEASE_ONLY_KNOWN;
        if (vain == OF_CACHED_ONLY)
                lease.lease.flags = PROTO_LEASE_ONLY_CACHED;
        return lease;
}

/* A client that knows facts makes the text of them that others are sent: REFUSED, or as much as an ERROR has room for. */
TEST(a_refusal_says_the_same_to_every_client, .to = N_IN_VAIN)
{
        int with_facts = connect_with(PROTO_FEATURES);
        int with_text = connect_with(PROTO_FEATURES & ~PROTO_FEATURE_FACTS);
        int with_neither = connect_with(PROTO_FEATURE_PARTS);
        struct frame lease = lease_in_vain((enum vain)_i), facts, text, error;
        uint64_t held = take_lease(with_facts, 160 * MIB);
        char made[REFUSAL_TEXT_BYTES];

        send_frame(with_facts, &lease, MESSAGE_LEASE, 7);
        facts = expect(with_facts, MESSAGE_REFUSED_FACTS);
        send_frame(with_text, &lease, MESSAGE_LEASE, 8);
        text = expect(with_text, MESSAGE_REFUSED);
        send_frame(with_neither, &lease, MESSAGE_LEASE, 9);
        error = expect(with_neither, MESSAGE_ERROR);
        ck_assert_uint_eq(facts.serial, 7);
        ck_assert_uint_eq(facts.refused_facts.pool, lease.lease.pool);
        ck_assert_uint_eq(facts.refused_facts.code, text.refused.code);
        ck_assert_uint_eq(facts.refused_facts.code, error.error.code);
        ck_assert_uint_eq(facts.refused_facts.reason, text.refused.reason);
        refusal_text(&facts.refused_facts, made);
        ck_assert_str_eq(made, text.refused.text);
        ck_assert_int_eq(strncmp(made, error.error.text, sizeof(error.error.text) - 1), 0);
        give_back(with_facts, held, PROTO_RETURN_UNMAPPED, 10);
}

TEST(a_waiting_lease_is_cancelled)
{
        struct frame frame = lease_frame(0, 2 * MIB, 60000);
        int owner = connect_ready(), other = connect_ready();
        uint64_t lease = take_lease(owner, 256 * MIB);

        send_frame(other, &frame, MESSAGE_LEASE, 5);
        /* Waiting holds nothing up. */
        frame = FRAME_NULL;
        send_frame(other, &frame, MESSAGE_POOLS, 6);
        ck_assert_uint_eq(expect(other, MESSAGE_POOLS_REPLY).serial, 6);
        ck_assert_uint_eq(daemon_figure(FIGURE_waiting), 1);
        frame.cancel.request = 5;
        send_frame(other, &frame, MESSAGE_CANCEL, 7);
        expect_error(other, 5, GPUMEM_E_CANCELLED);
        ck_assert_uint_eq(daemon_figure(FIGURE_waiting), 0);
        give_back(owner, lease, PROTO_RETURN_UNMAPPED, 8);
}

/* Given back but still mapped: the process may go on using it after its connection has ended. */
TEST(a_mapping_outlives_its_connection)
{
        pid_t pid = fork();

        if (pid == 0) {
                int fd = connect_ready();

                give_back(fd, take_lease(fd, 8 * MIB), 0, 3);
                closep(&fd);
                for (;;)
                        (void)pause();
        }
        daemon_await(FIGURE_cached, 8 * MIB);
        daemon_free_all();
        ck_assert_uint_eq(daemon_figure(FIGURE_lingering), 8 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), 8 * MIB);
        child_kill(pid);
        daemon_await(FIGURE_charged, 0);
        daemon_await(FIGURE_reserved, 0);
}

static bool is_orphaned(pid_t pid)
{
        struct listed listed = listed_now(MESSAGE_CLIENTS);
        bool is_so = false;

        for (uint32_t i = 0; i < listed.n_rows; i++)
                is_so = is_so || (listed.clients[i].pid == (uint32_t)pid &&
                                  listed.clients[i].state == LISTED_ORPHANED);
        listed_free(&listed);
        return is_so;
}

/* Its end takes several steps. Frames that come meanwhile are not read. */
TEST(a_connection_that_outlives_its_process_is_dropped_once, NEEDS_ROOT)
{
        enum { N_LEASES = 600, N_FRAMES = 5 };
        struct link *link;
        struct told told;
        pid_t child;
        int fd;

        daemon_stop(&gpumemd);
        daemon_start_configured(&gpumemd, "devices=1,bytes=2GiB", OPTIONS("--device-bytes", "2GiB"),
                                "{}");
        daemon_admit_all(&gpumemd);
        n_fds_before = daemon_quiet_fds(&gpumemd);
        fd = connect_from_child(0, &child);
        for (unsigned i = 0; i < N_LEASES; i++)
                (void)take_lease(fd, 2 * MIB);
        child_kill(child);
        AWAIT(is_orphaned(child));
        for (unsigned i = 0; i < N_FRAMES; i++)
                send_bytes(fd, "x", 1);
        (void)told_await(LISTED_EVENT_DROPPED, (uint32_t)child, 0);
        (void)daemon_quiet_fds(&gpumemd);
        link = open_admin_link("test");
        told = told_fetch(link, 0, TOLD_BIT(DROPPED));
        ck_assert_uint_eq(told.n_rows, 1);
        ck_assert_uint_eq(told.rows[0].times, 1);
        told_free(&told);
        link_free(link);
}

TESTS_MAIN("frames", .limit_s = 60, .start = frames_start, .stop = frames_stop)
