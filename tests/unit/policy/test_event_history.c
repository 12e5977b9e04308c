/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's event history. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "daemon/policy/report/event_history.h"
#include "tests/random.h"
#include "tests/suite.h"
#include "tests/unit/support/failing_alloc.h"

#define FIRST      UINT64_C(1000)
#define S          UINT64_C(1000000000)
#define N_ROWS     8
#define N_USERS    5
#define N_STEPS    3000
#define N_ROWS_ALL 24

static struct event_history *history;
static uint64_t now_ns;

/* The row with that number, or with the next higher one. */
static const struct event_history_row *find(uint64_t number)
{
        const struct event_history_row *row = event_history_last(history), *found = NULL;

        for (; row && event_history_may_reach(row, number); row = event_history_before(row)) {
                if (row->number >= number && (!found || row->number < found->number))
                        found = row;
        }
        return found;
}

static const struct event_history_row *next_of(const struct event_history_row *row)
{
        return find(row->number + 1);
}

static void start(void)
{
        now_ns = S;
        ck_assert_int_eq(event_history_new(N_ROWS, FIRST, &history), 0);
}

static void end(void)
{
        event_history_check(history);
        history = event_history_free(history);
}

static struct tenant_key tenant(uint32_t uid, const char *realm)
{
        struct tenant_key key = {.uid = uid};

        (void)snprintf(key.realm, sizeof(key.realm), "%s", realm);
        return key;
}

static void note_owned(uint32_t owner_uid, uint32_t uid, const char *realm, enum listed_event what,
                       uint32_t pid, struct event_history_row **own)
{
        const struct tenant_key key = tenant(uid, realm);
        const struct noted_event event = {.what = what,
                                          .owner = owner_uid,
                                          .pid = pid,
                                          .n_bytes = 10,
                                          .program = "program",
                                          .text = "text",
                                          .own = own};

        event_history_note(history, &key, &event, now_ns);
        event_history_check(history);
}

static void note_own(uint32_t uid, const char *realm, enum listed_event what, uint32_t pid,
                     struct event_history_row **own)
{
        note_owned(uid, uid, realm, what, pid, own);
}

static void note_of(uint32_t uid, const char *realm, enum listed_event what, uint32_t pid)
{
        note_own(uid, realm, what, pid, NULL);
}

static void note(uint32_t uid, enum listed_event what, uint32_t pid)
{
        note_of(uid, "", what, pid);
}

static void note_node(enum listed_event what)
{
        const struct noted_event event = {.what = what, .pool = 3, .text = "a device"};

        event_history_note(history, NULL, &event, now_ns);
        event_history_check(history);
}

/* Counts the rows of that user, and the events in them. */
static unsigned count_rows(uint32_t uid, uint64_t *ret_times)
{
        const struct event_history_row *row;
        unsigned n = 0;

        *ret_times = 0;
        for (row = find(0); row; row = next_of(row)) {
                if (!event_history_whose(row) || event_history_whose(row)->uid != uid)
                        continue;
                n++;
                *ret_times += row->times;
        }
        return n;
}

TEST(acts_of_administrators_stay_apart)
{
        uint64_t times;

        note(1, LISTED_EVENT_LIMITED, 5);
        note(1, LISTED_EVENT_LIMITED, 5);
        note(1, LISTED_EVENT_FREED_ALL, 5);
        note(1, LISTED_EVENT_FREED_ALL, 5);
        ck_assert_uint_eq(count_rows(1, &times), 4);
        ck_assert_uint_eq(times, 4);
}

TEST(events_are_told_in_the_order_of_their_numbers)
{
        const struct event_history_row *row;

        note(1, LISTED_EVENT_CONNECTED, 5);
        note(2, LISTED_EVENT_CONNECTED, 6);
        note(1, LISTED_EVENT_REFUSED, 5);
        ck_assert_uint_eq(event_history_end(history), FIRST + 3);
        row = find(0);
        for (unsigned i = 0; i < 3; i++) {
                ck_assert_uint_eq(row->number, FIRST + i);
                ck_assert_uint_eq(row->first, FIRST + i);
                ck_assert_uint_eq(row->times, 1);
                ck_assert_str_eq(row->program, "program");
                ck_assert_str_eq(row->text, "text");
                row = next_of(row);
        }
        ck_assert_ptr_null(row);
        ck_assert_uint_eq(find(FIRST + 1)->pid, 6);
        ck_assert_ptr_null(find(FIRST + 3));
        ck_assert_uint_eq(event_history_lost(history, NULL), 0);
}

TEST(what_is_alike_within_a_second_is_one_row)
{
        const struct event_history_row *row;

        note(1, LISTED_EVENT_GRANTED, 5);
        note(2, LISTED_EVENT_GRANTED, 5);
        now_ns += S / 2;
        note(1, LISTED_EVENT_GRANTED, 5);
        row = find(0);
        ck_assert_uint_eq(event_history_whose(row)->uid, 2);
        row = next_of(row);
        ck_assert_uint_eq(row->times, 2);
        ck_assert_uint_eq(row->n_bytes, 20);
        ck_assert_uint_eq(row->first, FIRST);
        ck_assert_uint_eq(row->number, FIRST + 2);
        ck_assert_uint_eq(row->last_ns - row->first_ns, S / 2);
        ck_assert_ptr_null(next_of(row));
        now_ns += S / 2;
        note(1, LISTED_EVENT_GRANTED, 5);
        ck_assert_uint_eq(find(FIRST + 3)->times, 1);
        note(1, LISTED_EVENT_GRANTED, 6);
        note(1, LISTED_EVENT_REVOKED, 6);
        ck_assert_uint_eq(find(FIRST + 5)->times, 1);
        ck_assert_uint_eq(event_history_lost(history, NULL), 0);
}

/* Of many clients each has its row, however many others come between. */
TEST(a_client_s_own_row_is_found)
{
        struct event_history_row *own[2 * EVENT_HISTORY_SCANS] = {NULL};
        const unsigned n = ARRAY_SIZE(own);
        uint64_t times;

        event_history_free(history);
        ck_assert_int_eq(event_history_new(n, FIRST, &history), 0);
        for (unsigned i = 0; i < 3 * n; i++)
                note_own(1, "", LISTED_EVENT_GRANTED, i % n, &own[i % n]);
        ck_assert_uint_eq(count_rows(1, &times), n);
        ck_assert_uint_eq(times, 3 * n);
        ck_assert_uint_eq(find(0)->times, 3);
        now_ns += S;
        note_own(1, "", LISTED_EVENT_GRANTED, 0, &own[0]);
        ck_assert_uint_eq(own[0]->times, 1);
}

static void note_numbered(uint32_t pid, uint64_t number, struct event_history_row **own)
{
        const struct tenant_key key = tenant(1, "");
        const struct noted_event event = {
                .number = number, .what = LISTED_EVENT_GRANTED, .owner = 1, .pid = pid, .own = own};

        event_history_note(history, &key, &event, now_ns);
        event_history_check(history);
}

/* Which does not hide it from those that ask for the last events. */
TEST(a_row_changes_its_place_only_after_many_numbers)
{
        struct event_history_row *one = NULL, *other = NULL;

        note_numbered(5, FIRST, &one);
        note_numbered(6, FIRST + 1, &other);
        note_numbered(5, FIRST + EVENT_HISTORY_NEAR - 1, &one);
        ck_assert_uint_eq(one->placed, FIRST);
        ck_assert_uint_eq(one->number, FIRST + EVENT_HISTORY_NEAR - 1);
        ck_assert_ptr_eq(event_history_last(history), other);
        ck_assert_ptr_eq(find(FIRST + EVENT_HISTORY_NEAR - 1), one);
        ck_assert_ptr_eq(find(FIRST + 1), other);
        note_numbered(5, FIRST + EVENT_HISTORY_NEAR, &one);
        ck_assert_uint_eq(one->placed, FIRST + EVENT_HISTORY_NEAR);
        ck_assert_uint_eq(one->times, 3);
        ck_assert_ptr_eq(event_history_last(history), one);
}

TEST(a_row_that_is_another_s_by_now_is_left_alone)
{
        struct event_history_row *own = NULL;

        note_own(1, "", LISTED_EVENT_GRANTED, 5, &own);
        for (uint32_t pid = 0; pid < N_ROWS; pid++)
                note(1, LISTED_EVENT_GRANTED, 10 + pid);
        ck_assert_uint_eq(own->pid, 10 + N_ROWS - 1);
        note_own(1, "", LISTED_EVENT_GRANTED, 5, &own);
        ck_assert_uint_eq(own->times, 1);
        ck_assert_uint_eq(own->pid, 5);
        note_own(3, "", LISTED_EVENT_GRANTED, 5, &own);
        ck_assert_uint_eq(own->times, 1);
        ck_assert_uint_eq(event_history_whose(own)->uid, 3);
}

/* Otherwise the sum would show a size that no request had. */
static uint64_t note_as(uint64_t number)
{
        const struct noted_event event = {.number = number, .what = LISTED_EVENT_STARTED};

        event_history_note(history, NULL, &event, now_ns);
        event_history_check(history);
        return event_history_end(history) - 1;
}

TEST(a_number_is_as_the_event_says_or_the_next)
{
        ck_assert_uint_eq(note_as(FIRST + 500), FIRST + 500);
        ck_assert_uint_eq(note_as(FIRST + 500), FIRST + 501);
        ck_assert_uint_eq(note_as(FIRST), FIRST + 502);
        ck_assert_uint_eq(note_as(FIRST + 503), FIRST + 503);
        ck_assert_uint_eq(find(FIRST + 503)->number, FIRST + 503);
        ck_assert_uint_eq(event_history_lost(history, NULL), 0);
}

TEST(refusals_say_what_the_last_one_asked_for_and_the_smallest_and_the_largest)
{
        static const uint64_t sizes[] = {20, 40, 10, 30};
        const struct tenant_key key = tenant(1, "");
        const struct event_history_row *row;

        for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
                const struct noted_event event = {
                        .what = LISTED_EVENT_REFUSED, .pid = 5, .n_bytes = sizes[i]};

                event_history_note(history, &key, &event, now_ns);
        }
        row = find(0);
        ck_assert_uint_eq(row->times, 4);
        ck_assert_uint_eq(row->n_bytes, 30);
        ck_assert_uint_eq(row->n_least_bytes, 10);
        ck_assert_uint_eq(row->n_most_bytes, 40);
        note(2, LISTED_EVENT_GRANTED, 5);
        ck_assert_uint_eq(next_of(row)->n_most_bytes, 0);
}

TEST(states_of_the_node_stay_in_their_order)
{
        const struct event_history_row *row;

        note_node(LISTED_EVENT_STALLED);
        note_node(LISTED_EVENT_BACK);
        note_node(LISTED_EVENT_STALLED);
        row = find(0);
        ck_assert_int_eq(row->what, LISTED_EVENT_STALLED);
        ck_assert_int_eq(next_of(row)->what, LISTED_EVENT_BACK);
        ck_assert_int_eq(next_of(next_of(row))->what, LISTED_EVENT_STALLED);
        ck_assert_ptr_null(event_history_whose(row));
}

static void note_of_one_of_many(uint32_t uid, unsigned i)
{
        char realm[32];

        (void)snprintf(realm, sizeof(realm), "client %u", i);
        note_of(uid, realm, LISTED_EVENT_CONNECTED, i + 10);
        note_of(uid, realm, LISTED_EVENT_ENDED, i + 10);
}

/* If each connection is a tenant, a user may have any number of them, one after another. */
TEST(many_tenants_of_a_user_push_out_its_own)
{
        uint64_t n_times;

        note(1, LISTED_EVENT_REFUSED, 5);
        note(1, LISTED_EVENT_REFUSED, 6);
        note(1, LISTED_EVENT_REFUSED, 7);
        for (unsigned i = 0; i < 1000; i++)
                note_of_one_of_many(2, i);
        ck_assert_uint_eq(count_rows(1, &n_times), 3);
        ck_assert_uint_eq(count_rows(2, &n_times), N_ROWS - 3);
        ck_assert_uint_eq(event_history_lost(history, NULL), 2000 - (N_ROWS - 3));
}

TEST(of_a_user_s_tenants_the_loud_one_pushes_out_its_own)
{
        const struct tenant_key quiet = tenant(1, "/quiet");

        note_of(1, "/quiet", LISTED_EVENT_GRANTED, 5);
        note_of(1, "/quiet", LISTED_EVENT_GRANTED, 6);
        note(2, LISTED_EVENT_GRANTED, 7);
        for (uint32_t i = 0; i < 1000; i++)
                note_of(1, "/loud", LISTED_EVENT_GRANTED, i + 10);
        ck_assert_uint_eq(find(0)->number, FIRST);
        ck_assert_uint_eq(find(FIRST + 1)->number, FIRST + 1);
        ck_assert_uint_eq(find(FIRST + 2)->number, FIRST + 2);
        ck_assert_uint_eq(event_history_lost(history, &quiet), 0);
}

static unsigned count_node_rows(void)
{
        const struct event_history_row *row;
        unsigned n = 0;

        for (row = find(0); row; row = next_of(row))
                n += !event_history_whose(row);
        return n;
}

/* A container may have any number of uids. They are its owner's. */
TEST(many_uids_in_a_container_push_out_its_own)
{
        uint64_t n_times;

        note(1, LISTED_EVENT_REFUSED, 5);
        note(1, LISTED_EVENT_REFUSED, 6);
        note(1, LISTED_EVENT_REFUSED, 7);
        for (uint32_t uid = 100; uid < 1100; uid++)
                note_owned(2, uid, "/container", LISTED_EVENT_CONNECTED, uid, NULL);
        ck_assert_uint_eq(count_rows(1, &n_times), 3);
}

/* One person may have many uids. */
TEST(no_number_of_users_pushes_the_node_s_out)
{
        const unsigned n_of_node = N_ROWS_ALL / 8;

        event_history_free(history);
        ck_assert_int_eq(event_history_new(N_ROWS_ALL, FIRST, &history), 0);
        for (unsigned i = 0; i < n_of_node; i++)
                note_node(LISTED_EVENT_RELOADED);
        for (uint32_t uid = 0; uid < 1000; uid++)
                note(uid, LISTED_EVENT_CONNECTED, uid);
        ck_assert_uint_eq(count_node_rows(), n_of_node);
        ck_assert_uint_eq(find(0)->number, FIRST);
        /* Later rows are kept, too, and push out the node's own when there are more. */
        for (unsigned i = 0; i < 3 * n_of_node; i++)
                note_node(LISTED_EVENT_HEALTH);
        for (uint32_t uid = 1000; uid < 2000; uid++)
                note(uid, LISTED_EVENT_CONNECTED, uid);
        ck_assert_uint_ge(count_node_rows(), n_of_node);
        ck_assert_uint_gt(find(0)->number, FIRST);
}

TEST(newcomers_push_out_each_other)
{
        uint64_t n_times;

        note(1, LISTED_EVENT_CONNECTED, 5);
        for (uint32_t uid = 2; uid < 1000; uid++)
                note(uid, LISTED_EVENT_CONNECTED, uid);
        ck_assert_uint_eq(count_rows(1, &n_times), 1);
        ck_assert_uint_eq(count_rows(999, &n_times), 1);
}

TEST(grants_push_no_refusal_out)
{
        uint64_t n_times;

        note(1, LISTED_EVENT_REFUSED, 5);
        for (uint32_t i = 0; i < 100; i++) {
                now_ns += S;
                note(1, LISTED_EVENT_GRANTED, 5);
        }
        ck_assert_int_eq(find(0)->what, LISTED_EVENT_REFUSED);
        ck_assert_uint_eq(count_rows(1, &n_times), N_ROWS);
}

TEST(containers_of_a_user_are_apart)
{
        const struct tenant_key one = tenant(1, "/one"), other = tenant(1, "/other");
        const struct noted_event event = {.what = LISTED_EVENT_GRANTED, .pid = 1};

        event_history_note(history, &one, &event, now_ns);
        event_history_note(history, &other, &event, now_ns);
        ck_assert_uint_eq(find(0)->times, 1);
        ck_assert_str_eq(event_history_whose(find(0))->realm, "/one");
        ck_assert_str_eq(event_history_whose(find(FIRST + 1))->realm, "/other");
}

/* More tenants than rows: losses of tenants without rows are counted, too. */
TEST(what_is_lost_of_the_forgotten_is_counted)
{
        const struct tenant_key key = tenant(N_ROWS, "");

        for (uint32_t uid = 0; uid < 2 * N_ROWS; uid++)
                note(uid, LISTED_EVENT_CONNECTED, uid);
        ck_assert_uint_eq(event_history_lost(history, NULL), N_ROWS);
        ck_assert_uint_eq(event_history_lost(history, &key), N_ROWS);
}

TEST(long_texts_are_cut)
{
        const struct tenant_key key = tenant(1, "");
        char text[2 * EVENT_HISTORY_TEXT_MAX];
        const struct noted_event event = {
                .what = LISTED_EVENT_DENIED, .program = text, .text = text};

        memset(text, 'a', sizeof(text) - 1);
        text[sizeof(text) - 1] = '\0';
        event_history_note(history, &key, &event, now_ns);
        ck_assert_uint_eq(strlen(find(0)->text), EVENT_HISTORY_TEXT_MAX - 1);
        ck_assert_uint_eq(strlen(find(0)->program), EVENT_HISTORY_PROGRAM_MAX - 1);
}

/* Of a row that stands for several, the last one's: facts, or words. */
TEST(a_refusal_keeps_its_facts)
{
        const struct tenant_key key = tenant(1, "");
        const struct message_refused_facts facts = {.code = 1, .n_bytes = 7, .program_3 = "third"};
        const struct noted_event refusal = {.what = LISTED_EVENT_REFUSED, .refused = &facts};
        const struct noted_event failure = {.what = LISTED_EVENT_REFUSED, .text = "words"};

        for (unsigned i = 0; i < 2; i++) {
                const struct event_history_row *row;

                event_history_note(history, &key, &refusal, now_ns);
                row = find(0);
                ck_assert(row->has_facts);
                ck_assert_mem_eq(&row->refused, &facts, sizeof(facts));
                event_history_note(history, &key, &failure, now_ns);
                row = find(0);
                ck_assert(!row->has_facts);
                ck_assert_str_eq(row->text, "words");
                ck_assert_uint_eq(row->times, 2 * i + 2);
        }
}

/* Also those of one process, and of processes whose pid gpumemd does not see. */
TEST(clients_refusals_are_told_apart)
{
        const struct tenant_key key = tenant(1, "");
        const struct message_refused_facts facts = {.code = 1, .n_bytes = 7};
        const struct noted_event refusal = {
                .what = LISTED_EVENT_REFUSED, .client = 1, .refused = &facts};
        const struct noted_event failure = {
                .what = LISTED_EVENT_REFUSED, .client = 2, .text = "words"};
        const struct event_history_row *row;

        event_history_note(history, &key, &refusal, now_ns);
        event_history_note(history, &key, &failure, now_ns);
        event_history_note(history, &key, &refusal, now_ns);
        row = event_history_last(history);
        ck_assert_str_eq(row->text, "words");
        ck_assert_uint_eq(row->times, 1);
        row = event_history_before(row);
        ck_assert(row->has_facts);
        ck_assert_uint_eq(row->times, 2);
}

/* The allocations for a new lane fail in turn. */
TEST(what_there_is_no_memory_for_is_counted)
{
        uint64_t n_lost = 0;

        for (int i = 0; i < 8; i++) {
                n_until_failure = i;
                note(1, LISTED_EVENT_GRANTED, 5);
                if (event_history_lost(history, NULL) == n_lost)
                        break;
                ck_assert_ptr_null(find(0));
                ck_assert_uint_eq(event_history_lost(history, NULL), ++n_lost);
        }
        n_until_failure = -1;
        ck_assert_uint_ge(n_lost, 1);
        ck_assert_uint_eq(find(0)->number, FIRST + n_lost);
}

/* In any order of events, every lost event is counted, and the owner with the fewest rows keeps them. */
TEST(every_event_is_kept_or_counted)
{
        static const enum listed_event kinds[] = {LISTED_EVENT_GRANTED, LISTED_EVENT_REFUSED,
                                                  LISTED_EVENT_ENDED, LISTED_EVENT_STALLED};
        static const char *const realms[] = {"", "/a", "/b", "/c"};
        struct event_history_row *own[N_USERS] = {NULL};
        struct test_random random = test_random_begin();
        uint64_t n_kept = 0;

        event_history_free(history);
        ck_assert_int_eq(event_history_new(N_ROWS_ALL, FIRST, &history), 0);
        for (unsigned i = 0; i < N_STEPS; i++) {
                enum listed_event what = kinds[test_random_below(&random, ARRAY_SIZE(kinds))];

                now_ns += test_random_below(&random, S / 4);
                if (what == LISTED_EVENT_STALLED)
                        note_node(what);
                else
                        note_own((uint32_t)test_random_below(&random, N_USERS),
                                 realms[test_random_below(&random, ARRAY_SIZE(realms))], what,
                                 (uint32_t)test_random_below(&random, 3),
                                 &own[test_random_below(&random, N_USERS)]);
        }
        for (const struct event_history_row *row = find(0); row; row = next_of(row))
                n_kept += row->times;
        ck_assert_uint_eq(n_kept + event_history_lost(history, NULL), N_STEPS);
        ck_assert_uint_eq(event_history_end(history), FIRST + N_STEPS);
}

static unsigned count_canaries(uint64_t *ret_times)
{
        const struct event_history_row *row;
        unsigned n = 0;

        *ret_times = 0;
        for (row = find(0); row; row = next_of(row)) {
                ck_assert(row->what != LISTED_EVENT_CANARY || !event_history_whose(row));
                n += row->what == LISTED_EVENT_CANARY;
                *ret_times += row->what == LISTED_EVENT_CANARY ? row->times : 0;
        }
        return n;
}

/* A question about the node's health must find it, however many events come after it. */
TEST(memory_that_is_not_cleared_is_not_forgotten)
{
        uint64_t n_times;

        note_node(LISTED_EVENT_CANARY);
        for (unsigned i = 0; i < 3 * N_ROWS; i++) {
                now_ns += 10 * S;
                note_node(LISTED_EVENT_HEALTH);
                ck_assert_uint_eq(count_canaries(&n_times), 1);
                note(i, LISTED_EVENT_DENIED, i);
                ck_assert_uint_eq(count_canaries(&n_times), 1);
        }
        for (unsigned i = 0; i < 3 * N_ROWS; i++) {
                now_ns += 10 * S;
                note_node(LISTED_EVENT_CANARY);
        }
        ck_assert_uint_eq(count_canaries(&n_times), 1);
        ck_assert_uint_eq(n_times, 1 + 3 * N_ROWS);
}

TESTS_MAIN("event_history", .start = start, .stop = end)
