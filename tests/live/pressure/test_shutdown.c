/* SPDX-License-Identifier: Apache-2.0 */
/* SIGTERM: what the daemon still does, what it waits for, and what it logs in the end. */
#include "tests/live/support/links.h"
#include "tests/live/support/world.h"
#include "tests/live/worlds/frames_world.h"
#include "tests/live/worlds/party.h"

static struct party party;

/* And there is one client. */
static void start_with(const char *configuration)
{
        log_begin();
        daemon_start_configured(&gpumemd, "devices=1,bytes=256MiB",
                                OPTIONS("--log", "info", "--device-bytes", "64MiB"), configuration);
        party = party_join();
}

static void start(void)
{
        start_with("{\"drain_seconds\": 600}");
}

static void terminate(void)
{
        ck_assert_int_eq(kill(gpumemd.pid, SIGTERM), 0);
}

/* The same, and it has heard that. */
static void begin_end(void)
{
        terminate();
        log_await("new leases are refused");
}

static void expect_end_in_order(void)
{
        child_await(gpumemd.pid, 0);
        daemon_clear(&gpumemd);
        party_leave(&party);
}

/* What comes unasked is passed over. */
static struct frame await(const struct party *of, enum message_kind kind)
{
        struct frame frame;

        do {
                struct fdset fds = FDSET_NULL;
                struct proto_reason reason;

                ck_assert_int_eq(frame_socket_receive(of->fd, FROM_DAEMON, &frame, &fds, &reason),
                                 0);
                fdset_deinit(&fds);
        } while (frame.kind == MESSAGE_NOTICE && kind != MESSAGE_NOTICE);
        ck_assert_int_eq(frame.kind, kind);
        return frame;
}

static void expect_refusal(const struct party *of)
{
        struct frame frame = await(of, MESSAGE_ERROR);

        ck_assert_uint_eq(frame.error.code, GPUMEM_E_SHUTTING_DOWN);
        must_contain(frame.error.text, "gpumemd is shutting down");
}

static void ask(struct party *of, uint64_t n_bytes, uint32_t wait_ms)
{
        struct frame frame = lease_frame(0, n_bytes, wait_ms);

        (void)party_say(of, &frame, MESSAGE_LEASE);
}

TEST(nothing_is_leased_and_what_comes_back_ends_it)
{
        uint64_t lease = party_lease(&party, 0, 4 * MIB).lease;

        begin_end();
        ask(&party, 2 * MIB, 0);
        expect_refusal(&party);
        ask(&party, 2 * MIB, 600000);
        expect_refusal(&party);
        /* Who looks at it is served. */
        ck_assert_uint_eq(daemon_figure(FIGURE_leased), 4 * MIB);
        party_give_back(&party, lease);
        expect_end_in_order();
        ck_assert_ptr_null(strstr(log_text(), "still hold"));
}

TEST(who_waits_is_refused)
{
        uint64_t lease = party_lease(&party, 0, 64 * MIB).lease;
        struct party other = party_join();

        ask(&other, 2 * MIB, 600000);
        daemon_await(FIGURE_waiting, 1);
        begin_end();
        expect_refusal(&other);
        party_give_back(&party, lease);
        expect_end_in_order();
        party_leave(&other);
}

TEST(who_attaches_is_refused)
{
        struct frame share = {.share = {.n_bytes = 2 * MIB}}, attach = FRAME_NULL, reply;
        struct frame lease = lease_frame(0, 2 * MIB, 0);

        lease.lease.properties = PROTO_PROPERTY_SHAREABLE;
        (void)party_say(&party, &lease, MESSAGE_LEASE);
        share.share.lease = party_take(&party, NULL).lease;
        (void)party_say(&party, &share, MESSAGE_SHARE);
        reply = await(&party, MESSAGE_SHARED);
        begin_end();
        attach.attach.token_low = reply.shared.token_low;
        attach.attach.token_high = reply.shared.token_high;
        (void)party_say(&party, &attach, MESSAGE_ATTACH);
        ck_assert_uint_eq(await(&party, MESSAGE_ERROR).error.code, GPUMEM_E_SHUTTING_DOWN);
        party_give_back(&party, share.share.lease);
        expect_end_in_order();
}

static void unmap_when_told(uint64_t lease)
{
        struct frame notice;

        do {
                notice = await(&party, MESSAGE_NOTICE);
        } while (notice.notice.what != PROTO_NOTICE_UNMAP);
        ck_assert_uint_eq(notice.notice.lease, lease);
        party_unmapped(&party, lease);
}

/* Also memory that becomes idle only then; no message need say so. */
TEST(what_nobody_uses_goes_back_at_once)
{
        struct message_leased early = party_lease(&party, 0, 4 * MIB);
        struct message_leased late = party_lease(&party, 0, 8 * MIB);

        party_give_back(&party, party_lease(&party, 0, 6 * MIB).lease);
        daemon_await(FIGURE_cached, 6 * MIB);
        party_mark_idle(&party, &early);
        begin_end();
        daemon_await(FIGURE_reserved, 12 * MIB);
        ck_assert(party_was_revoked(&party, &early));
        unmap_when_told(early.lease);
        party_mark_idle(&party, &late);
        unmap_when_told(late.lease);
        expect_end_in_order();
}

TEST(where_nothing_is_held_it_ends_at_once)
{
        terminate();
        expect_end_in_order();
        log_await("shutting down");
        /* No client is listed that holds nothing. */
        ck_assert_msg(!strstr(log_text(), " held"), "%s", log_text());
        ck_assert_msg(!strstr(log_text(), " hold"), "%s", log_text());
        ck_assert_msg(!strstr(log_text(), " 0 B"), "%s", log_text());
}

static void expect_named(void)
{
        char line[160];

        (void)snprintf(line, sizeof(line),
                       "client %d (test), uid %u: still holds 4.00 MiB of device memory, 0 B of "
                       "pinned memory",
                       (int)getpid(), (unsigned)getuid());
        log_await("clients that still hold memory: 1, with 4.00 MiB");
        log_await(line);
}

TEST(a_second_signal_ends_it_at_once)
{
        (void)party_lease(&party, 0, 4 * MIB);
        begin_end();
        terminate();
        expect_end_in_order();
        expect_named();
}

static const struct test_case configured = {"configured", .limit_s = 60};

TEST(when_it_is_time_it_says_who_holds_what, .in = &configured)
{
        start_with("{\"drain_seconds\": 1}");
        (void)party_lease(&party, 0, 4 * MIB);
        terminate();
        expect_end_in_order();
        log_await("clients hold 4.00 MiB; waiting up to 1 s for it");
        expect_named();
}

TEST(unless_it_is_told_so_it_waits_for_nobody, .in = &configured)
{
        start_with("{}");
        (void)party_lease(&party, 0, 4 * MIB);
        terminate();
        expect_end_in_order();
        expect_named();
}

TEST(how_long_it_waits_may_change_before, .in = &configured)
{
        start_with("{}");
        (void)party_lease(&party, 0, 4 * MIB);
        daemon_configure(&gpumemd, "{\"drain_seconds\": 600}");
        log_await("configuration reloaded");
        begin_end();
        terminate();
        expect_end_in_order();
}

#define N_TRIES  4
#define N_LEASES 2900

static void hold_many(struct link *link)
{
        for (unsigned i = 0; i < N_LEASES; i++) {
                struct message_lease wanted = {.pool = 0, .n_bytes = 2 * MIB};
                struct message_leased leased;

                ck_assert_int_eq(lease_over(link, &wanted, &leased), 0);
        }
}

/* Its leases end in many steps; the signal comes when the first of them is over. */
TEST(it_ends_in_order_while_a_clients_leases_end, .in = &configured)
{
        for (unsigned i = 0; i < N_TRIES; i++) {
                struct link *link;

                daemon_start(&gpumemd, "devices=1,bytes=16GiB", OPTIONS("--log", "info"));
                link = open_link("holder", NULL);
                hold_many(link);
                daemon_suspend(&gpumemd);
                link_free(link);
                terminate();
                daemon_resume(&gpumemd);
                child_await(gpumemd.pid, 0);
                daemon_clear(&gpumemd);
        }
}

TESTS_MAIN("shutdown", .limit_s = 60, .start = start)
