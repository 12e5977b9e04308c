/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon remembers of what happened, and who is told of it. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/size.h"
#include "daemon/identity/cgroup.h"
#include "tests/live/frames_world.h"
#include "tests/live/links.h"
#include "tests/live/party.h"
#include "tests/live/told.h"
#include "tests/suite.h"

#define STRANGER 4711
#define N_CROWD  700

static void start(void)
{
        frames_start();
        daemon_admit_all(&gpumemd);
}

static uint32_t own_pid(void)
{
        return (uint32_t)getpid();
}

static uint32_t own_uid(void)
{
        return (uint32_t)getuid();
}

static struct link *open_as_stranger(void)
{
        struct link *link;

        ck_assert_int_eq(seteuid(STRANGER), 0);
        link = open_link("stranger", NULL);
        ck_assert_int_eq(seteuid(0), 0);
        return link;
}

static struct party join_as_stranger(void)
{
        struct party party;

        ck_assert_int_eq(seteuid(STRANGER), 0);
        party = party_join();
        ck_assert_int_eq(seteuid(0), 0);
        return party;
}

/* The last row of that kind and user in the list; there must be one. */
static struct event_row last_of(const struct told *told, enum listed_event what, uint32_t uid)
{
        struct event_row found = {.event = 0};
        bool is_there = false;

        for (uint32_t i = 0; i < told->n_rows; i++) {
                if (told->rows[i].what != what || told->rows[i].uid != uid)
                        continue;
                found = told->rows[i];
                is_there = true;
        }
        ck_assert_msg(is_there, "%s is not told", listed_event_name(what));
        return found;
}

static unsigned count(const struct told *told, enum listed_event what)
{
        unsigned n = 0;

        for (uint32_t i = 0; i < told->n_rows; i++)
                n += told->rows[i].what == what;
        return n;
}

static void refuse_one(struct party *party, uint64_t n_bytes, enum gpumem_error code)
{
        struct frame frame = lease_frame(0, n_bytes, 0);

        party_say(party, &frame, MESSAGE_LEASE);
        expect_error(party->fd, party->serial, code);
}

/* The one that the kernel says this process is in: perhaps none. */
static void expect_own_container(const char *told)
{
        char cgroups[4096], path[CGROUP_PATH_MAX], name[CGROUP_NAME_MAX];
        FILE *file = fopen("/proc/self/cgroup", "re");

        ck_assert_ptr_nonnull(file);
        cgroups[fread(cgroups, 1, sizeof(cgroups) - 1, file)] = '\0';
        (void)fclose(file);
        ck_assert_int_eq(cgroup_find_container(cgroups, path), 0);
        cgroup_container_name(path, name);
        ck_assert_str_eq(told, name);
}

TEST(a_client_is_told_of_from_its_coming_to_its_end)
{
        struct party party = party_join();
        struct message_leased leased = party_lease(&party, 0, 200 * MIB);
        struct event_row row;

        refuse_one(&party, 128 * MIB, GPUMEM_E_REFUSED);
        party_give_back(&party, leased.lease);
        party_give_back(&party, leased.lease);
        expect_error(party.fd, party.serial, GPUMEM_E_NO_LEASE);
        party_leave(&party);
        row = told_await(LISTED_EVENT_GRANTED, own_pid(), own_uid());
        ck_assert_uint_ge(row.bytes, 200 * MIB);
        ck_assert_uint_eq(row.pool, 0);
        ck_assert_uint_eq(row.kind, GPUMEM_DEVICE);
        ck_assert_str_eq(row.program, "test");
        expect_own_container(row.container);
        row = told_await(LISTED_EVENT_REFUSED, own_pid(), own_uid());
        ck_assert_uint_eq(row.bytes, 128 * MIB);
        ck_assert_uint_eq(row.code, GPUMEM_E_REFUSED);
        ck_assert_uint_eq(row.reason, PROTO_REFUSED_POOL_FULL);
        ck_assert_msg(strstr(row.text, "128.00 MiB asked"), "%s", row.text);
        row = told_await(LISTED_EVENT_DENIED, own_pid(), own_uid());
        ck_assert_uint_eq(row.code, GPUMEM_E_NO_LEASE);
        ck_assert_uint_eq(row.pool, LISTING_NOBODY);
        (void)told_await(LISTED_EVENT_CONNECTED, own_pid(), own_uid());
        (void)told_await(LISTED_EVENT_ENDED, own_pid(), own_uid());
        row = told_await(LISTED_EVENT_STARTED, 0, LISTING_NOBODY);
        ck_assert_uint_eq(row.times, 1);
}

TEST(rows_follow_each_other_and_begin_where_that_is_asked)
{
        struct link *link = open_link("test", NULL);
        struct told all = told_fetch(link, 0, 0), some;

        ck_assert_uint_ge(all.n_rows, 3);
        ck_assert_uint_eq(all.n_lost, 0);
        for (uint32_t i = 1; i < all.n_rows; i++)
                ck_assert_uint_gt(all.rows[i].event, all.rows[i - 1].event);
        ck_assert_uint_eq(all.next, all.end);
        some = told_fetch(link, all.rows[1].event, 0);
        ck_assert_uint_eq(some.n_rows, all.n_rows - 1);
        ck_assert_uint_eq(some.rows[0].event, all.rows[1].event);
        told_free(&some);
        some = told_fetch(link, 0, TOLD_BIT(STARTED) | TOLD_BIT(CONNECTED));
        ck_assert_uint_eq(count(&some, LISTED_EVENT_STARTED), 1);
        ck_assert_uint_eq(count(&some, LISTED_EVENT_GRANTED), 0);
        told_free(&some);
        some = told_fetch(link, all.next, 0);
        ck_assert_uint_eq(some.n_rows, 0);
        ck_assert_uint_eq(some.next, all.next);
        told_free(&some);
        told_free(&all);
        link_free(link);
}

/* By who comes and goes: each of them is another process's, so that none are alike. */
TEST(an_answer_has_its_bound_and_says_where_to_go_on)
{
        struct told told = {.next = 0};
        struct link *link;
        uint32_t n_rows = 0;
        unsigned n_answers = 0;

        for (unsigned i = 0; i < N_CROWD; i++) {
                pid_t pid = fork();

                if (pid == 0)
                        _exit(connect_ready() < 0);
                ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
        }
        (void)told_await(LISTED_EVENT_CONNECTED, own_pid(), own_uid());
        link = open_link("test", NULL);
        do {
                told = told_fetch(link, told.next, TOLD_BIT(CONNECTED) | TOLD_BIT(ENDED));
                n_rows += told.n_rows;
                n_answers++;
                ck_assert_uint_le(told.n_rows, 64);
                told_free(&told);
        } while (told.next < told.end);
        ck_assert_uint_ge(n_answers, 2 * N_CROWD / 64);
        ck_assert_uint_gt(n_rows, 2 * N_CROWD - 10);
        link_free(link);
}

TEST(other_tenants_events_are_a_sum, NEEDS_ROOT)
{
        struct party stranger, root = party_join();
        struct message_leased held = party_lease(&root, 0, 4 * MIB);
        struct link *link, *all;
        struct told told;
        struct event_row others;

        stranger = join_as_stranger();
        refuse_one(&stranger, 512 * MIB, GPUMEM_E_TOO_LARGE);
        link = open_as_stranger();
        told = told_fetch(link, 0, 0);
        others = last_of(&told, LISTED_EVENT_GRANTED, LISTING_NOBODY);
        ck_assert_uint_eq(others.event, 0);
        ck_assert_uint_eq(others.first, 0);
        ck_assert_uint_eq(others.pid, 0);
        ck_assert_uint_eq(others.age, LISTING_UNTOLD);
        ck_assert_uint_ge(others.bytes, 4 * MIB);
        ck_assert_uint_ge(others.times, 1);
        ck_assert_str_eq(others.program, "(other tenants)");
        ck_assert_str_eq(others.text, "");
        ck_assert_uint_eq(count(&told, LISTED_EVENT_REFUSED), 1);
        ck_assert_uint_eq(last_of(&told, LISTED_EVENT_REFUSED, STRANGER).bytes, 512 * MIB);
        (void)last_of(&told, LISTED_EVENT_STARTED, LISTING_NOBODY);
        for (uint32_t i = 0; i < told.n_rows; i++)
                ck_assert(told.rows[i].uid == STRANGER || told.rows[i].uid == LISTING_NOBODY);
        told_free(&told);
        /* No part of them, of which a sum would tell. */
        told = told_fetch(link, 1, 0);
        for (uint32_t i = 0; i < told.n_rows; i++)
                ck_assert_uint_ne(told.rows[i].event, 0);
        told_free(&told);
        refuse_one(&root, 512 * MIB, GPUMEM_E_TOO_LARGE);
        told = told_fetch(link, 0, TOLD_BIT(REFUSED));
        others = last_of(&told, LISTED_EVENT_REFUSED, LISTING_NOBODY);
        ck_assert_uint_eq(others.times, 1);
        ck_assert_uint_eq(others.bytes, 0);
        told_free(&told);
        all = open_link("test", NULL);
        told = told_fetch(all, 0, 0);
        (void)last_of(&told, LISTED_EVENT_REFUSED, STRANGER);
        (void)last_of(&told, LISTED_EVENT_GRANTED, 0);
        told_free(&told);
        link_free(all);
        link_free(link);
        party_give_back(&root, held.lease);
        party_leave(&root);
        party_leave(&stranger);
}

TEST(who_is_dropped_is_told_with_the_reason)
{
        int fd = connect_ready();
        struct event_row row;

        send_bytes(fd, "x", 1);
        expect_error(fd, 0, GPUMEM_E_BAD_FRAME);
        expect_end(fd);
        (void)close(fd);
        row = told_await(LISTED_EVENT_DROPPED, own_pid(), own_uid());
        ck_assert_ptr_nonnull(strstr(row.text, "malformed frame"));
}

TEST(who_is_turned_away_is_told)
{
        struct event_row row;
        int fds[24];

        daemon_stop(&gpumemd);
        daemon_start_configured(&gpumemd, "devices=1,bytes=256MiB", NULL,
                                "{\"each_user\": {\"connections\": 20}}");
        n_fds_before = daemon_quiet_fds(&gpumemd);
        for (unsigned i = 0; i < ARRAY_SIZE(fds); i++)
                fds[i] = connect_raw();
        row = told_await(LISTED_EVENT_TURNED_AWAY, own_pid(), own_uid());
        ck_assert_ptr_nonnull(strstr(row.text, "too many connections"));
        for (unsigned i = 0; i < ARRAY_SIZE(fds); i++)
                (void)close(fds[i]);
        ck_assert_uint_eq(daemon_quiet_fds(&gpumemd), n_fds_before);
}

TEST(what_administrators_do_is_told)
{
        struct link *link = open_admin_link("admin");
        const struct message_set_limits change = {.scope = PROTO_LIMIT_OF_TENANT,
                                                  .holder = STRANGER,
                                                  .kind = PROTO_LIMIT_LEASES,
                                                  .max = 7};
        struct party party = party_join();
        struct event_row row;
        struct told told;

        party_give_back(&party, party_lease(&party, 0, 4 * MIB).lease);
        party_leave(&party);
        daemon_await(FIGURE_cached, 4 * MIB);
        ck_assert_int_eq(set_limit_over(link, &change, NULL), 0);
        row = told_await(LISTED_EVENT_LIMITED, own_pid(), own_uid());
        ck_assert_str_eq(row.text, "tenant/4711:leases=7");
        daemon_free_all();
        (void)told_await(LISTED_EVENT_FREED_ALL, own_pid(), own_uid());
        told = told_fetch(link, 0, TOLD_BIT(FREED));
        ck_assert_uint_eq(told.n_rows, 0);
        told_free(&told);
        daemon_configure(&gpumemd, "{}");
        (void)told_await(LISTED_EVENT_RELOADED, 0, LISTING_NOBODY);
        link_free(link);
}

/* The holder was told, and says nothing for a second. */
static void expect_late(bool is_pinned, const char *part)
{
        struct party holder = party_join(), asker = party_join();
        uint32_t pool = is_pinned ? holder.pinned : 0;
        struct frame frame = lease_frame(pool, 220 * MIB, 60000), notice;
        struct message_leased idle = party_lease(&holder, pool, 200 * MIB), leased;
        struct fdset fds = FDSET_NULL;
        struct event_row row;

        party_mark_idle(&holder, &idle);
        party_say(&asker, &frame, MESSAGE_LEASE);
        party_expect(&holder, MESSAGE_NOTICE, &notice, &fds);
        row = told_await(LISTED_EVENT_LATE, own_pid(), own_uid());
        ck_assert_uint_eq(row.bytes, 200 * MIB);
        ck_assert_uint_eq(row.pool, pool);
        ck_assert_msg(strstr(row.text, part), "%s", row.text);
        party_unmapped(&holder, idle.lease);
        leased = party_take(&asker, NULL);
        party_give_back(&asker, leased.lease);
        party_leave(&asker);
        party_leave(&holder);
}

TEST(who_is_late_is_told)
{
        expect_late(false, "does it hang?");
}

TEST(who_keeps_pinned_memory_registered_is_not_blamed)
{
        daemon_stop(&gpumemd);
        daemon_start_configured(&gpumemd, "devices=1,bytes=256MiB", NULL,
                                "{\"pools\": [{\"pinned\": \"all\","
                                " \"max_bytes\": \"256MiB\"}]}");
        n_fds_before = daemon_quiet_fds(&gpumemd);
        expect_late(true, "keeps it registered");
}

TESTS_MAIN("events", .limit_s = 60, .start = start, .stop = frames_stop)
