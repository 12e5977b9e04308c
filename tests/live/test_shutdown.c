/* SPDX-License-Identifier: Apache-2.0 */
/* SIGTERM: what the daemon still does, what it waits for, and what it says in the end. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/size.h"
#include "gpumem.h"
#include "tests/live/daemon.h"
#include "tests/live/frames_world.h"
#include "tests/live/links.h"
#include "tests/live/party.h"
#include "tests/suite.h"

#define LOG_BYTES_MAX 65536
#define PATIENCE_MS   20000

/* Where the daemon's stderr goes, as it is this process's. */
static int log_fd;

static void start(const char *configuration)
{
        static const char *const options[] = {"--log", "info", "--device-bytes", "64MiB", NULL};

        log_fd = memfd_create("log", MFD_CLOEXEC);
        ck_assert_int_ge(dup2(log_fd, STDERR_FILENO), 0);
        daemon_start_configured(&gpumemd, "devices=1,bytes=256MiB", options, configuration);
}

static const char *read_log(void)
{
        static char log[LOG_BYTES_MAX];
        ssize_t n_bytes = pread(log_fd, log, sizeof(log) - 1, 0);

        ck_assert_int_ge(n_bytes, 0);
        log[n_bytes] = '\0';
        return log;
}

static void expect_line(const char *text)
{
        ck_assert_msg(strstr(read_log(), text), "no \"%s\" in:\n%s", text, read_log());
}

static void await_line(const char *text)
{
        for (unsigned i = 0; i < PATIENCE_MS && !strstr(read_log(), text); i++)
                sleep_ms(1);
        expect_line(text);
}

static void terminate(void)
{
        ck_assert_int_eq(kill(gpumemd.pid, SIGTERM), 0);
}

/* The same, and it has heard that. */
static void begin_end(void)
{
        terminate();
        await_line("nothing is leased any more");
}

static void expect_end_in_order(void)
{
        int status = -1;

        ck_assert_int_eq(waitpid(gpumemd.pid, &status, 0), gpumemd.pid);
        daemon_clear(&gpumemd);
        ck_assert(WIFEXITED(status));
        ck_assert_int_eq(WEXITSTATUS(status), 0);
}

/* What comes unasked is passed over. */
static struct frame await(const struct party *party, enum message_kind kind)
{
        struct frame frame;

        do {
                struct fdset fds = FDSET_NULL;
                struct proto_reason reason;

                ck_assert_int_eq(wire_receive(party->fd, FROM_DAEMON, &frame, &fds, &reason), 0);
                fdset_deinit(&fds);
        } while (frame.kind == MESSAGE_NOTICE && kind != MESSAGE_NOTICE);
        ck_assert_int_eq(frame.kind, kind);
        return frame;
}

static void expect_refusal(const struct party *party)
{
        struct frame frame = await(party, MESSAGE_ERROR);

        ck_assert_uint_eq(frame.error.code, GPUMEM_E_SHUTTING_DOWN);
        ck_assert_ptr_nonnull(strstr(frame.error.text, "gpumemd is ending"));
}

static uint32_t ask(struct party *party, uint64_t n_bytes, uint32_t wait_ms)
{
        struct frame frame = lease_frame(0, n_bytes, wait_ms);

        return party_say(party, &frame, MESSAGE_LEASE);
}

TEST(nothing_is_leased_and_what_comes_back_ends_it)
{
        struct party party;
        struct message_leased leased;

        start("{\"drain_seconds\": 600}");
        party = party_join();
        leased = party_lease(&party, 0, 4 * MIB);
        begin_end();
        (void)ask(&party, 2 * MIB, 0);
        expect_refusal(&party);
        (void)ask(&party, 2 * MIB, 600000);
        expect_refusal(&party);
        /* Who looks at it is served. */
        ck_assert_uint_eq(daemon_figure(FIGURE_leased), 4 * MIB);
        party_give_back(&party, leased.lease);
        expect_end_in_order();
        ck_assert_ptr_null(strstr(read_log(), "still hold"));
        party_leave(&party);
}

TEST(who_waits_is_refused)
{
        struct party party, other;
        struct message_leased leased;

        start("{\"drain_seconds\": 600}");
        party = party_join();
        other = party_join();
        leased = party_lease(&party, 0, 64 * MIB);
        (void)ask(&other, 2 * MIB, 600000);
        daemon_await(FIGURE_waiting, 1);
        begin_end();
        expect_refusal(&other);
        party_give_back(&party, leased.lease);
        expect_end_in_order();
        party_leave(&party);
        party_leave(&other);
}

TEST(who_attaches_is_refused)
{
        struct frame share = FRAME_NULL, attach = FRAME_NULL, lease = lease_frame(0, 2 * MIB, 0);
        struct message_leased leased;
        struct party party;
        struct frame reply;

        start("{\"drain_seconds\": 600}");
        party = party_join();
        lease.lease.properties = PROTO_PROPERTY_SHAREABLE;
        (void)party_say(&party, &lease, MESSAGE_LEASE);
        leased = party_take(&party, NULL);
        share.share.lease = leased.lease;
        share.share.n_bytes = 2 * MIB;
        (void)party_say(&party, &share, MESSAGE_SHARE);
        reply = await(&party, MESSAGE_SHARED);
        begin_end();
        attach.attach.token_low = reply.shared.token_low;
        attach.attach.token_high = reply.shared.token_high;
        (void)party_say(&party, &attach, MESSAGE_ATTACH);
        ck_assert_uint_eq(await(&party, MESSAGE_ERROR).error.code, GPUMEM_E_SHUTTING_DOWN);
        party_give_back(&party, leased.lease);
        expect_end_in_order();
        party_leave(&party);
}

/* Also what becomes idle only then; nobody need say so. */
TEST(what_nobody_uses_goes_back_at_once)
{
        struct party party;
        struct message_leased early, late, cached;
        struct frame notice;

        start("{\"drain_seconds\": 600}");
        party = party_join();
        early = party_lease(&party, 0, 4 * MIB);
        late = party_lease(&party, 0, 8 * MIB);
        cached = party_lease(&party, 0, 6 * MIB);
        party_give_back(&party, cached.lease);
        daemon_await(FIGURE_cached, 6 * MIB);
        party_mark_idle(&party, &early);
        begin_end();
        daemon_await(FIGURE_reserved, 12 * MIB);
        ck_assert(party_was_revoked(&party, &early));
        do {
                notice = await(&party, MESSAGE_NOTICE);
        } while (notice.notice.what != PROTO_NOTICE_UNMAP);
        ck_assert_uint_eq(notice.notice.lease, early.lease);
        party_unmapped(&party, early.lease);
        party_mark_idle(&party, &late);
        do {
                notice = await(&party, MESSAGE_NOTICE);
        } while (notice.notice.what != PROTO_NOTICE_UNMAP);
        ck_assert_uint_eq(notice.notice.lease, late.lease);
        party_unmapped(&party, late.lease);
        expect_end_in_order();
        party_leave(&party);
}

static void expect_named(const struct party *party)
{
        char line[160];

        (void)snprintf(line, sizeof(line),
                       "client %d (test), uid %u: still holds 4.00 MiB of device memory, 0 B of "
                       "pinned memory",
                       (int)getpid(), (unsigned)getuid());
        expect_line("clients that still hold memory: 1, of 4.00 MiB");
        expect_line(line);
        (void)party;
}

TEST(when_it_is_time_it_says_who_holds_what)
{
        struct party party;

        start("{\"drain_seconds\": 1}");
        party = party_join();
        (void)party_lease(&party, 0, 4 * MIB);
        terminate();
        expect_end_in_order();
        expect_line("4.00 MiB are held: that is waited for, 1 s at most");
        expect_named(&party);
        party_leave(&party);
}

TEST(a_second_signal_ends_it_at_once)
{
        struct party party;

        start("{\"drain_seconds\": 600}");
        party = party_join();
        (void)party_lease(&party, 0, 4 * MIB);
        begin_end();
        terminate();
        expect_end_in_order();
        expect_named(&party);
        party_leave(&party);
}

TEST(unless_it_is_told_so_it_waits_for_nobody)
{
        struct party party;

        start("{}");
        party = party_join();
        (void)party_lease(&party, 0, 4 * MIB);
        terminate();
        expect_end_in_order();
        expect_named(&party);
        party_leave(&party);
}

TEST(how_long_it_waits_may_change_before)
{
        struct party party;

        start("{}");
        party = party_join();
        (void)party_lease(&party, 0, 4 * MIB);
        daemon_configure(&gpumemd, "{\"drain_seconds\": 600}");
        await_line("was read again");
        begin_end();
        terminate();
        expect_end_in_order();
        party_leave(&party);
}

TEST(where_nothing_is_held_it_ends_at_once)
{
        struct party party;

        start("{\"drain_seconds\": 600}");
        party = party_join();
        terminate();
        expect_end_in_order();
        expect_line("shutting down");
        /* Nobody is said to hold nothing. */
        ck_assert_msg(!strstr(read_log(), " held"), "%s", read_log());
        ck_assert_msg(!strstr(read_log(), " hold"), "%s", read_log());
        ck_assert_msg(!strstr(read_log(), " 0 B"), "%s", read_log());
        party_leave(&party);
}

TESTS_MAIN("shutdown", .limit_s = 60)
