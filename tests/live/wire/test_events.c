/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's event history, and which clients may see which events. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>

#include "daemon/identity/cgroup.h"
#include "tests/live/support/told.h"
#include "tests/live/support/world.h"
#include "tests/live/worlds/frames_world.h"
#include "tests/live/worlds/party.h"

#define STRANGER 4711
#define N_CROWD  700

static void start(void)
{
        frames_start();
        daemon_admit_all(&gpumemd);
}

static struct link *open_as_stranger(void)
{
        struct link *link;

        ck_assert_int_eq(seteuid(STRANGER), 0);
        link = open_link("stranger", NULL);
        ck_assert_int_eq(seteuid(0), 0);
        return link;
}

/* The last event of that kind of this process; and the last one of the node. */
static struct event_row await_own(enum listed_event what)
{
        return told_await(what, (uint32_t)getpid(), (uint32_t)getuid());
}

static struct event_row await_nobodys(enum listed_event what)
{
        return told_await(what, 0, LISTING_NOBODY);
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

static struct frame failed_frame(void)
{
        struct frame frame = FRAME_NULL;

        frame.failed = (struct message_failed){
                .n_bytes = 9 * GIB, .pool = 1, .code = GPUMEM_E_TOO_LARGE};
        proto_put_text(frame.failed.text, sizeof(frame.failed.text), "more than there is");
        return frame;
}

/* A library of this version says so; one that does not name the feature may not. */
TEST(what_a_library_refuses_is_told)
{
        struct link *link = open_link("own", NULL);
        struct party party = party_join();
        struct frame frame = failed_frame();
        struct event_row row;

        ck_assert_int_eq(link_send(link, &frame, MESSAGE_FAILED), 0);
        row = await_own(LISTED_EVENT_REFUSED);
        ck_assert_uint_eq(row.code, GPUMEM_E_TOO_LARGE);
        ck_assert_uint_eq(row.bytes, 9 * GIB);
        ck_assert_uint_eq(row.pool, 1);
        ck_assert_str_eq(row.program, "own");
        ck_assert_str_eq(row.text, "more than there is");
        frame = failed_frame();
        party_say(&party, &frame, MESSAGE_FAILED);
        expect_error(party.fd, party.serial, GPUMEM_E_BAD_REQUEST);
        link_free(link);
        party_leave(&party);
}

/* What a terminal would carry out does not come through. */
TEST(a_name_in_utf8_is_told)
{
        static const char *const names[][2] = {
                {"M\xc3\xbcller \xe6\xbc\xa2", "M\xc3\xbcller \xe6\xbc\xa2"},
                {"a\033[31m\xc2\x9b\xe2\x80\xae\xff", "a?[31m???"},
        };

        for (unsigned i = 0; i < ARRAY_SIZE(names); i++) {
                struct link *link = open_link(names[i][0], NULL);
                struct frame frame = failed_frame();

                ck_assert_int_eq(link_send(link, &frame, MESSAGE_FAILED), 0);
                AWAIT(strcmp(await_own(LISTED_EVENT_REFUSED).program, names[i][1]) == 0);
                link_free(link);
        }
}

static void take_one(struct link *link)
{
        const struct message_lease wanted = {.n_bytes = 2 * MIB};
        struct message_leased leased;

        ck_assert_int_eq(lease_over(link, &wanted, &leased), 0);
        return_over(link, leased.lease, PROTO_RETURN_UNMAPPED);
}

/* Also with leases that share a row with those before. */
TEST(a_new_name_is_told)
{
        struct link *link = open_link("before", NULL);
        struct frame frame = FRAME_NULL;

        take_one(link);
        take_one(link);
        ck_assert_str_eq(await_own(LISTED_EVENT_GRANTED).program, "before");
        proto_put_name(frame.named.program, sizeof(frame.named.program), "after");
        ck_assert_int_eq(link_send(link, &frame, MESSAGE_NAMED), 0);
        take_one(link);
        ck_assert_str_eq(await_own(LISTED_EVENT_GRANTED).program, "after");
        link_free(link);
}

/* Texts are what older clients read: they have the name in ASCII. */
TEST(a_refusal_names_a_holder_in_ascii)
{
        const struct message_lease wanted = {.n_bytes = 200 * MIB};
        struct link *holder = open_link("M\xc3\xbcller", NULL), *asker = open_link("asker", NULL);
        struct message_leased leased;
        char text[LINK_REFUSAL_MAX];

        ck_assert_int_eq(lease_over(holder, &wanted, &leased), 0);
        ck_assert_int_eq(lease_over(asker, &wanted, &leased), GPUMEM_E_REFUSED);
        link_refusal(asker, text);
        ck_assert_msg(strstr(text, "Held by M?ller (pid "), "\"%s\"", text);
        return_over(holder, leased.lease, PROTO_RETURN_UNMAPPED);
        link_free(asker);
        link_free(holder);
}

TEST(a_name_in_utf8_requires_the_feature)
{
        struct party party = party_join();
        struct frame frame = FRAME_NULL;

        proto_put_name(frame.named.program, sizeof(frame.named.program), "M\xc3\xbcller");
        party_say(&party, &frame, MESSAGE_NAMED);
        expect_error(party.fd, party.serial, GPUMEM_E_BAD_REQUEST);
        party_leave(&party);
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

        refuse_one(&party, 100 * MIB, GPUMEM_E_REFUSED);
        refuse_one(&party, 128 * MIB, GPUMEM_E_REFUSED);
        party_give_back(&party, leased.lease);
        party_give_back(&party, leased.lease);
        expect_error(party.fd, party.serial, GPUMEM_E_NO_LEASE);
        party_leave(&party);
        row = await_own(LISTED_EVENT_GRANTED);
        ck_assert_uint_ge(row.bytes, 200 * MIB);
        ck_assert_uint_eq(row.pool, 0);
        ck_assert_uint_eq(row.kind, GPUMEM_DEVICE);
        ck_assert_str_eq(row.program, "test");
        expect_own_container(row.container);
        row = await_own(LISTED_EVENT_REFUSED);
        ck_assert_uint_eq(row.bytes, 128 * MIB);
        ck_assert_uint_eq(row.least, 100 * MIB);
        ck_assert_uint_eq(row.most, 128 * MIB);
        ck_assert_uint_eq(row.code, GPUMEM_E_REFUSED);
        ck_assert_uint_eq(row.reason, PROTO_REFUSED_POOL_FULL);
        ck_assert_msg(strstr(row.text, "128.00 MiB asked"), "%s", row.text);
        row = await_own(LISTED_EVENT_DENIED);
        ck_assert_uint_eq(row.code, GPUMEM_E_NO_LEASE);
        ck_assert_uint_eq(row.pool, LISTING_NOBODY);
        (void)await_own(LISTED_EVENT_CONNECTED);
        (void)await_own(LISTED_EVENT_ENDED);
        ck_assert_uint_eq(await_nobodys(LISTED_EVENT_STARTED).times, 1);
}

static unsigned count_times(struct link *link, enum listed_event what)
{
        struct told told = told_fetch(link, 0, UINT32_C(1) << what);
        unsigned n = 0;

        for (uint32_t i = 0; i < told.n_rows; i++)
                n += told.rows[i].times;
        told_free(&told);
        return n;
}

TEST(who_only_looks_is_not_told_of)
{
        struct link *link = open_link("looks", NULL);
        unsigned n_connected = count_times(link, LISTED_EVENT_CONNECTED);
        unsigned n_ended = count_times(link, LISTED_EVENT_ENDED);
        struct party party;

        link_free(link);
        link_free(open_admin_link("looks"));
        party = party_join();
        refuse_one(&party, 512 * MIB, GPUMEM_E_TOO_LARGE);
        refuse_one(&party, 512 * MIB, GPUMEM_E_TOO_LARGE);
        party_leave(&party);
        link = open_link("looks", NULL);
        for (unsigned ms = 0; ms < AWAIT_MS && count_times(link, LISTED_EVENT_ENDED) == n_ended;
             ms++)
                sleep_ms(1);
        ck_assert_uint_eq(count_times(link, LISTED_EVENT_ENDED), n_ended + 1);
        ck_assert_uint_eq(count_times(link, LISTED_EVENT_CONNECTED), n_connected + 1);
        link_free(link);
}

TEST(rows_follow_each_other_and_begin_where_that_is_asked)
{
        struct link *link = open_link("test", NULL);
        struct party party = party_join();
        struct told all, some;

        party_give_back(&party, party_lease(&party, 0, 4 * MIB).lease);
        all = told_fetch(link, 0, 0);
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

/* What an answer has at most. */
#define ROWS_MOST 64

/* All rows of these kinds. */
static uint32_t count_rows(struct link *link, uint32_t kinds)
{
        struct told told = {.next = 0};
        uint32_t n_rows = 0, n_answers = 0;

        do {
                told = told_fetch(link, told.next, kinds);
                n_rows += told.n_rows;
                n_answers++;
                ck_assert_uint_le(told.n_rows, ROWS_MOST);
                told_free(&told);
        } while (told.next < told.end);
        ck_assert_uint_ge(n_answers, n_rows / ROWS_MOST);
        return n_rows;
}

/* By who comes and goes: each of them is another process's, so that none are alike. */
TEST(an_answer_has_its_bound_and_says_where_to_go_on)
{
        struct link *link;
        pid_t last = 0;

        for (unsigned i = 0; i < N_CROWD; i++) {
                pid_t pid = fork();

                if (pid == 0) {
                        struct party party = party_join();

                        refuse_one(&party, 512 * MIB, GPUMEM_E_TOO_LARGE);
                        _exit(0);
                }
                ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
                last = pid;
        }
        (void)told_await(LISTED_EVENT_ENDED, (uint32_t)last, (uint32_t)getuid());
        link = open_link("test", NULL);
        ck_assert_uint_gt(count_rows(link, TOLD_BIT(CONNECTED) | TOLD_BIT(ENDED)),
                          2 * N_CROWD - 10);
        ck_assert_uint_eq(count_rows(link, TOLD_BIT(REFUSED)), N_CROWD);
        link_free(link);
}

TEST(other_tenants_events_are_a_sum, NEEDS_ROOT)
{
        struct party stranger, root = party_join();
        struct message_leased held = party_lease(&root, 0, 4 * MIB);
        struct link *link, *all;
        struct told told;
        struct event_row others;

        stranger = party_join_as(STRANGER);
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
}

TEST(who_is_dropped_is_told_with_the_reason)
{
        int fd = connect_ready();

        send_bytes(fd, "x", 1);
        expect_dropped(fd, 0, GPUMEM_E_BAD_FRAME);
        ck_assert_ptr_nonnull(strstr(await_own(LISTED_EVENT_DROPPED).text, "malformed frame"));
}

static void start_again(const char *configuration)
{
        daemon_stop(&gpumemd);
        daemon_start_configured(&gpumemd, "devices=1,bytes=256MiB", NULL, configuration);
        n_fds_before = daemon_quiet_fds(&gpumemd);
}

TEST(who_is_turned_away_is_told)
{
        start_again("{\"each_user\": {\"connections\": 20}}");
        for (unsigned i = 0; i < 24; i++)
                (void)connect_raw();
        ck_assert_ptr_nonnull(
                strstr(await_own(LISTED_EVENT_TURNED_AWAY).text, "too many connections"));
        hang_up();
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
        struct told told;

        party_give_back(&party, party_lease(&party, 0, 4 * MIB).lease);
        party_leave(&party);
        daemon_await(FIGURE_cached, 4 * MIB);
        ck_assert_int_eq(set_limit_over(link, &change, NULL), 0);
        ck_assert_str_eq(await_own(LISTED_EVENT_LIMITED).text, "tenant/4711:leases=7");
        daemon_free_all();
        (void)await_own(LISTED_EVENT_FREED_ALL);
        told = told_fetch(link, 0, TOLD_BIT(FREED));
        ck_assert_uint_eq(told.n_rows, 0);
        told_free(&told);
        daemon_configure(&gpumemd, "{}");
        (void)await_nobodys(LISTED_EVENT_RELOADED);
        link_free(link);
}

/* The holder was told, and says nothing for a second. */
static void expect_late(bool is_pinned, const char *part)
{
        struct party holder = party_join(), asker = party_join();
        uint32_t pool = is_pinned ? holder.pinned : 0;
        struct frame frame = lease_frame(pool, 220 * MIB, 60000), notice;
        struct message_leased idle = party_lease(&holder, pool, 200 * MIB);
        struct fdset fds = FDSET_NULL;
        struct event_row row;

        party_mark_idle(&holder, &idle);
        party_say(&asker, &frame, MESSAGE_LEASE);
        party_expect(&holder, MESSAGE_NOTICE, &notice, &fds);
        row = await_own(LISTED_EVENT_LATE);
        ck_assert_uint_eq(row.bytes, 200 * MIB);
        ck_assert_uint_eq(row.pool, pool);
        ck_assert_msg(strstr(row.text, part), "%s", row.text);
        party_unmapped(&holder, idle.lease);
        party_give_back(&asker, party_take(&asker, NULL).lease);
}

TEST(who_is_late_is_told)
{
        expect_late(false, "does it hang?");
}

TEST(who_keeps_pinned_memory_registered_is_not_blamed)
{
        start_again("{\"pools\": [{\"pinned\": \"all\", \"max_bytes\": \"256MiB\"}]}");
        expect_late(true, "keeps it registered");
}

#define N_HELD_BYTES (6 * MIB)

/* A process with a lease; a child of it has the connection, too, and ends when `ends` is closed. */
static pid_t pid, child;
static int ends[2];

static void hold_twice(void)
{
        int told[2];

        ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
        ck_assert_int_eq(pipe2(told, O_CLOEXEC), 0);
        pid = fork();
        if (pid == 0) {
                int fd = connect_ready();
                char byte;

                (void)take_lease(fd, N_HELD_BYTES);
                closep(&ends[1]);
                child = fork();
                if (child == 0)
                        _exit(read(ends[0], &byte, 1) != 0);
                if (write(told[1], &child, sizeof(child)) != sizeof(child))
                        _exit(1);
                for (;;)
                        (void)pause();
        }
        ck_assert_int_gt(pid, 0);
        ck_assert_int_eq(read(told[0], &child, sizeof(child)), sizeof(child));
}

/* Also of one that is not ours to be waited for. */
static void end_child(void)
{
        struct pollfd poll_fd = {.fd = (int)syscall(SYS_pidfd_open, child, 0), .events = POLLIN};

        closep(&ends[1]);
        if (poll_fd.fd < 0) {
                ck_assert_int_eq(errno, ESRCH);
                return;
        }
        ck_assert_int_eq(poll(&poll_fd, 1, AWAIT_MS), 1);
        closep(&poll_fd.fd);
}

static struct event_row await_event(enum listed_event what)
{
        struct event_row row = told_await(what, (uint32_t)pid, (uint32_t)getuid());

        ck_assert_uint_eq(row.bytes, N_HELD_BYTES);
        return row;
}

/* The daemon is stopped meanwhile, so that it finds both signs at once, in the order in which they came. */
TEST(a_connection_and_a_process_that_end_together_do_not_linger, .to = 2)
{
        struct link *link;
        struct told told;

        hold_twice();
        if (_i)
                end_child();
        daemon_suspend(&gpumemd);
        child_kill(pid);
        if (!_i)
                end_child();
        daemon_resume(&gpumemd);
        (void)await_event(LISTED_EVENT_ENDED);
        link = open_link("test", NULL);
        told = told_fetch(link, 0, TOLD_BIT(LINGERING));
        ck_assert_uint_eq(told.n_rows, 0);
        told_free(&told);
        link_free(link);
}

TEST(a_child_with_the_connection_lingers)
{
        hold_twice();
        child_kill(pid);
        ck_assert_str_eq(await_event(LISTED_EVENT_LINGERING).text,
                         "the process has ended, a child of it holds the connection");
        end_child();
        (void)await_event(LISTED_EVENT_ENDED);
}

/* A child that leaves with a lease, and lives on until it is told to end. */
TEST(what_lingers_is_told_and_its_end)
{
        pid = fork();
        if (pid == 0) {
                int fd = connect_ready();

                (void)take_lease(fd, N_HELD_BYTES);
                closep(&fd);
                for (;;)
                        (void)pause();
        }
        ck_assert_str_ne(await_event(LISTED_EVENT_LINGERING).text, "");
        child_kill(pid);
        (void)await_event(LISTED_EVENT_ENDED);
}

TESTS_MAIN("events", .limit_s = 60, .start = start, .stop = frames_stop)
