/* SPDX-License-Identifier: Apache-2.0 */
/* The audit log: acts of administrators, grants, refusals. */
#include <fcntl.h>

#include "base/log_thread.h"
#include "tests/live/support/world.h"
#include "tests/live/worlds/frames_world.h"
#include "tests/live/worlds/party.h"

#define OTHER_UID 4711

static void start(void)
{
        log_begin();
        daemon_start(&gpumemd, "devices=1,bytes=256MiB", OPTIONS("--log", "info"));
}

static unsigned count_text(const char *text)
{
        unsigned n = 0;

        for (const char *at = log_text(); (at = strstr(at, text)); at++)
                n++;
        return n;
}

/* How many lines have the text behind the name of this process. */
static unsigned count_lines(const char *program, const char *way, const char *what)
{
        char wanted[512];

        (void)snprintf(wanted, sizeof(wanted), "audit: uid %u, process %d (%s)%s: %s",
                       (unsigned)getuid(), (int)getpid(), program, way, what);
        return count_text(wanted);
}

static unsigned count_deeds(const char *program, const char *what)
{
        return count_lines(program, ", admin socket", what);
}

TEST(what_an_administrator_does_is_logged)
{
        struct link *link = open_admin_link("admin");
        const struct message_set_limits change = {.scope = PROTO_LIMIT_OF_TENANT,
                                                  .holder = OTHER_UID,
                                                  .kind = PROTO_LIMIT_LEASES,
                                                  .max = 7};

        ck_assert_int_eq(set_limit_over(link, &change, NULL), 0);
        AWAIT(count_deeds("admin", "limit: tenant/4711:leases=7, revision 2\n") == 1);
        daemon_free_all();
        AWAIT(count_deeds("free-all", "every tenant's cached blocks are freed\n") == 1);
        ck_assert_int_eq(reset_peaks_over(link, PROTO_SCOPE_NODE, PROTO_ALL_POOLS), 0);
        AWAIT(count_deeds("admin", "every tenant's peaks are reset\n") == 1);
        link_free(link);
}

static uint64_t reclaim(struct link *link)
{
        struct frame frame = FRAME_NULL, reply;

        frame.reclaim.uid = (uint32_t)getuid();
        ck_assert_int_eq(ask_over(link, &frame, MESSAGE_RECLAIM, &reply), 0);
        return reply.reclaimed.n_bytes;
}

TEST(a_reclaim_is_logged_once_and_when_it_takes_something)
{
        struct link *link = open_admin_link("admin");
        struct party party = party_join();
        struct message_leased held = party_lease(&party, 0, 2 * MIB);
        char what[64];

        (void)snprintf(what, sizeof(what), "cached and idle blocks of uid %u are freed\n",
                       (unsigned)getuid());
        for (int i = 0; i < 5; i++)
                ck_assert_uint_eq(reclaim(link), 0);
        AWAIT(count_deeds("admin", what) == 1);
        party_give_back(&party, held.lease);
        daemon_await(FIGURE_cached, 2 * MIB);
        ck_assert_uint_eq(reclaim(link), 2 * MIB);
        AWAIT(count_deeds("admin", what) == 2);
        link_free(link);
}

TEST(a_grant_to_another_user_is_logged)
{
        struct frame frame = lease_frame(0, 2 * MIB, 0);
        char what[64];
        uint64_t lease;
        int fd = connect_ready();

        frame.lease.properties = PROTO_PROPERTY_SHAREABLE;
        send_frame(fd, &frame, MESSAGE_LEASE, 2);
        lease = expect(fd, MESSAGE_LEASED).leased.lease;
        frame = FRAME_NULL;
        frame.share = (struct message_share){
                .lease = lease, .n_bytes = 4096, .uid = OTHER_UID, .flags = PROTO_SHARE_GRANT};
        send_frame(fd, &frame, MESSAGE_SHARE, 3);
        (void)expect(fd, MESSAGE_SHARED);
        (void)snprintf(what, sizeof(what), "grants lease %llu to uid 4711\n",
                       (unsigned long long)lease);
        AWAIT(count_lines("test", "", what) == 1);
}

/* Every refusal is logged, except those of a user that is refused over and over. */
TEST(what_is_refused_is_logged)
{
        struct frame frame;
        int fd = connect_ready();

        /* Twice what the device has: a GPU has more than the emulated one. */
        frame = lease_frame(0, daemon_device_bytes() / (2 * MIB) * (4 * MIB), 0);
        send_frame(fd, &frame, MESSAGE_LEASE, 2);
        expect_error(fd, 2, GPUMEM_E_TOO_LARGE);
        AWAIT(count_lines("test", "", "refused: ") == 1);
        for (unsigned i = 0; i < 1000; i++) {
                give_back(fd, 1u << 30, PROTO_RETURN_UNMAPPED, 3);
                expect_error(fd, 3, GPUMEM_E_NO_LEASE);
        }
        AWAIT(count_lines("test", "", "refused: ") >= 2);
        ck_assert_uint_lt(count_lines("test", "", "refused: "), 500);
}

/* Six LEASEs would use up the lines of a second, and the reason would have none. */
TEST(a_group_that_is_refused_is_one_line)
{
        struct frame frame = hello_frame();
        uint64_t n_bytes = daemon_device_bytes() / (4 * MIB) * (2 * MIB);
        int fd = connect_raw();

        frame.hello.features |= PROTO_FEATURE_GROUPS;
        send_frame(fd, &frame, MESSAGE_HELLO, 1);
        (void)expect(fd, MESSAGE_WELCOME);
        for (uint32_t serial = 2; serial < 8; serial++) {
                frame = lease_frame(0, n_bytes, 0);
                frame.lease.flags |= serial < 7 ? PROTO_LEASE_MORE : 0;
                send_frame(fd, &frame, MESSAGE_LEASE, serial);
        }
        for (uint32_t serial = 2; serial < 8; serial++)
                (void)expect(fd, MESSAGE_ERROR);
        AWAIT(count_lines("test", "", "refused: ") == 1);
        ck_assert_uint_eq(count_text("the last LEASE of the group"), 0);
        ck_assert_uint_eq(count_text("more lines about"), 0);
}

/* The one that the daemon was found with may still count: then two are refused. */
TEST(who_is_turned_away_is_logged)
{
        static const char what[] = "refused: too many connections";

        daemon_stop(&gpumemd);
        daemon_start_configured(&gpumemd, "devices=1,bytes=256MiB", OPTIONS("--log", "info"),
                                "{\"each_user\": {\"connections\": 3}}");
        for (unsigned i = 0; i < 4; i++)
                (void)connect_raw();
        AWAIT(count_lines("?", "", what));
}

TEST(a_configuration_that_is_read_again_is_logged)
{
        static const char line[] = "audit: SIGHUP: configuration reloaded\n";

        ck_assert_uint_eq(count_text(line), 0);
        daemon_configure(&gpumemd, "{}");
        log_await(line);
        AWAIT(count_text(line) == 1);
}

/* A pipe that is full; returns its end for reading. */
static int fill_stderr(void)
{
        int ends[2];

        ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
        ck_assert_int_ge(dup2(ends[1], STDERR_FILENO), 0);
        ck_assert_int_eq(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
        while (write(ends[1], "x", 1) == 1) {
        }
        ck_assert_int_eq(fcntl(ends[1], F_SETFL, 0), 0);
        ck_assert_int_eq(close(ends[1]), 0);
        return ends[0];
}

/* More lines than wait for stderr at most. */
TEST(a_log_that_nobody_reads_holds_up_nothing)
{
        struct message_set_limits change = {
                .scope = PROTO_LIMIT_OF_TENANT, .holder = OTHER_UID, .kind = PROTO_LIMIT_LEASES};
        char text[1 << 17];
        struct link *link;
        size_t length = 0;
        int reader;

        daemon_stop(&gpumemd);
        reader = fill_stderr();
        daemon_start(&gpumemd, "devices=1,bytes=256MiB", OPTIONS("--log", "info"));
        link = open_admin_link("admin");
        for (change.max = 1; change.max <= 2 * LOG_THREAD_LINES; change.max++)
                ck_assert_int_eq(set_limit_over(link, &change, NULL), 0);
        link_free(link);
        text[0] = '\0';
        while (!strstr(text, " lines were left out: ")) {
                ssize_t n = read(reader, &text[length], sizeof(text) - 1 - length);

                ck_assert_int_gt(n, 0);
                length += (size_t)n;
                text[length] = '\0';
        }
        ck_assert_int_eq(close(reader), 0);
}

TESTS_MAIN("audit", .limit_s = 60, .start = start, .stop = gpumemd_stop)
