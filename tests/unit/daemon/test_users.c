/* SPDX-License-Identifier: Apache-2.0 */
/* users: which processes share an account, how many accounts a user has, and who pays for whom. */
#include "daemon/fairness/users.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "gpumem.h"
#include "tests/suite.h"
#include "tests/unit/support/failing_alloc.h"

#define KIND  ALLOWANCE_CONNECTIONS
#define UID   1000
#define OTHER 1001

static struct accounts all;
static struct payer everyone;

static void start(void)
{
        payer_init_root(&everyone);
        all = (struct accounts){.everyone = &everyone};
        for (unsigned kind = 0; kind < ALLOWANCE_N_KINDS; kind++) {
                all.allowances.max[kind] = 1000;
                all.allowances.max_each[kind] = 10;
                all.allowances.max_tenants[kind] = USER_TIMES * 10;
        }
}

static void stop(void)
{
        ck_assert(accounts_are_unused(&all));
        payer_deinit_root(&everyone);
        ck_assert_ptr_null(all.users);
}

static struct account *must_ref(uint32_t uid, const char *realm)
{
        struct account *account;

        ck_assert_int_eq(account_ref(&all, uid, realm, &account), 0);
        return account;
}

static struct account *must_ref_nth(uint32_t uid, unsigned n)
{
        char realm[32];

        (void)snprintf(realm, sizeof(realm), "/container-%u", n);
        return must_ref(uid, realm);
}

static struct process *must_join(struct account *account, const struct process_key *key,
                                 struct process_member *member)
{
        struct process *process;

        ck_assert_int_eq(process_join(account, key, member, &process), 0);
        return process;
}

static unsigned take_all(struct account *account, struct due *dues, unsigned n_dues)
{
        unsigned n = 0;

        while (n < n_dues && due_begin(&dues[n], account->allowance, KIND, 1) == 0)
                n++;
        return n;
}

TEST(a_user_and_a_realm_are_counted_together)
{
        struct account *outside = must_ref(UID, ""), *one = must_ref(UID, "/one");
        struct account *other = must_ref(OTHER, "/one");

        ck_assert_ptr_eq(must_ref(UID, "/one"), one);
        ck_assert_ptr_ne(one, outside);
        ck_assert_ptr_ne(one, other);
        ck_assert_ptr_eq(one->user, outside->user);
        ck_assert_ptr_ne(one->user, other->user);
        ck_assert(!account_is_of_more(one));
        ck_assert(!accounts_are_unused(&all));
        (void)account_unref(one);
        (void)account_unref(one);
        (void)account_unref(outside);
        ck_assert(!accounts_are_unused(&all));
        (void)account_unref(other);
        ck_assert(accounts_are_unused(&all));
}

TEST(one_container_leaves_connections_for_the_users_others)
{
        struct account *greedy[USER_TIMES + 1], *other = must_ref(OTHER, "");
        struct due dues[USER_TIMES + 1][12] = {{DUE_NULL}}, more[12] = {DUE_NULL};
        unsigned n = 0;

        for (unsigned i = 0; i <= USER_TIMES; i++)
                greedy[i] = must_ref_nth(UID, i);
        ck_assert_uint_eq(take_all(greedy[0], dues[0], 12), 10);
        ck_assert_uint_eq(take_all(greedy[1], dues[1], 12), 10);
        /* Later tenants find something; together they have no more than the user may. */
        for (unsigned i = 2; i <= USER_TIMES; i++) {
                n = take_all(greedy[i], dues[i], 12);
                ck_assert_uint_ge(n, 2);
        }
        ck_assert_uint_le(all.allowances.n[KIND], USER_TIMES * 10);
        ck_assert_uint_eq(all.allowances.n[KIND], greedy[0]->user->allowance.n[KIND]);
        ck_assert_uint_eq(take_all(other, more, 12), 10);
        for (unsigned i = 0; i <= USER_TIMES; i++) {
                for (unsigned k = 0; k < 12; k++)
                        due_end(&dues[i][k]);
                (void)account_unref(greedy[i]);
        }
        for (unsigned k = 0; k < 12; k++)
                due_end(&more[k]);
        (void)account_unref(other);
        ck_assert_uint_eq(all.allowances.n[KIND], 0);
}

TEST(where_containers_make_no_difference_a_user_is_one)
{
        struct account *one, *other;
        struct due dues[12] = {DUE_NULL};

        all.one_a_user = true;
        one = must_ref(UID, "/one");
        other = must_ref(UID, "/other");
        ck_assert_ptr_eq(one, other);
        ck_assert_uint_eq(take_all(one, dues, 12), 10);
        for (unsigned k = 0; k < 12; k++)
                due_end(&dues[k]);
        (void)account_unref(one);
        (void)account_unref(other);
}

/* However many containers it has. Another user has accounts of its own. */
TEST(a_user_has_so_many_accounts_and_one_for_the_rest)
{
        static struct account *accounts[ACCOUNTS_A_USER];
        struct account *more, *again, *other;

        for (unsigned i = 0; i < ACCOUNTS_A_USER; i++) {
                accounts[i] = must_ref_nth(UID, i);
                ck_assert(!account_is_of_more(accounts[i]));
                for (unsigned k = 0; i < 3 && k < i; k++)
                        ck_assert_ptr_ne(accounts[k], accounts[i]);
        }
        more = must_ref(UID, "/one-more");
        again = must_ref(UID, "/and-another");
        ck_assert(account_is_of_more(more));
        ck_assert_ptr_eq(more, again);
        ck_assert_uint_eq(more->user->n_accounts, ACCOUNTS_A_USER + 1);
        /* Accounts that exist stay separate. */
        ck_assert_ptr_eq(must_ref_nth(UID, 7), accounts[7]);
        (void)account_unref(accounts[7]);
        other = must_ref(OTHER, "/one-more");
        ck_assert(!account_is_of_more(other));
        (void)account_unref(other);
        (void)account_unref(more);
        (void)account_unref(again);
        /* After they have gone there is room again. */
        (void)account_unref(accounts[0]);
        accounts[0] = must_ref(UID, "/one-more");
        ck_assert(!account_is_of_more(accounts[0]));
        for (unsigned i = 0; i < ACCOUNTS_A_USER; i++)
                (void)account_unref(accounts[i]);
}

/* Also those that have accounts of their own. */
TEST(those_that_cannot_be_read_are_counted_together)
{
        static const char *const realms[] = {ACCOUNT_UNREADABLE " 1", ACCOUNT_UNREADABLE " 1",
                                             ACCOUNT_UNREADABLE " 2", "/one",
                                             ACCOUNT_UNREADABLE " 1"};
        enum { ONE, AGAIN, TWO, READABLE, OF_OTHER, N };
        struct process_member members[N];
        struct process *processes[N];
        struct account *accounts[N];

        for (unsigned i = 0; i < N; i++) {
                const struct process_key key = {.number = 100 + i, .uid = UID};

                accounts[i] = must_ref(i == OF_OTHER ? OTHER : UID, realms[i]);
                processes[i] = must_join(accounts[i], &key, &members[i]);
        }
        ck_assert_ptr_eq(accounts[ONE], accounts[AGAIN]);
        ck_assert_ptr_ne(accounts[ONE], accounts[TWO]);
        ck_assert_uint_eq(account_n_unreadable(accounts[ONE]), 3);
        ck_assert_uint_eq(account_n_unreadable(accounts[READABLE]), 3);
        ck_assert_uint_eq(account_n_unreadable(accounts[OF_OTHER]), 1);
        (void)process_leave(processes[AGAIN], &members[AGAIN]);
        ck_assert_uint_eq(account_n_unreadable(accounts[TWO]), 2);
        for (unsigned i = 0; i < N; i++) {
                if (i != AGAIN)
                        (void)process_leave(processes[i], &members[i]);
                (void)account_unref(accounts[i]);
        }
}

/* In three realms of one user, and in one of another: each pays to its own user. */
TEST(a_process_pays_by_its_account_and_its_user)
{
        struct process_member members[4];
        struct account *accounts[4] = {must_ref(UID, ""), must_ref(UID, "/one"),
                                       must_ref(UID, "/two"), must_ref(OTHER, "/one")};
        const struct process_key key = {.number = 7, .uid = UID};
        struct process *processes[4];

        for (unsigned i = 0; i < 4; i++) {
                processes[i] = must_join(accounts[i], &key, &members[i]);
                payer_charge(&processes[i]->payer, 1 + i);
                ck_assert_uint_eq(accounts[i]->payer.used_ns, 1 + i);
        }
        ck_assert_uint_eq(accounts[0]->user->payer.used_ns, 1 + 2 + 3);
        ck_assert_uint_eq(accounts[3]->user->payer.used_ns, 4);
        ck_assert_uint_eq(everyone.used_ns, 1 + 2 + 3 + 4);
        for (unsigned i = 0; i < 4; i++) {
                ck_assert_ptr_null(process_leave(processes[i], &members[i]));
                (void)account_unref(accounts[i]);
        }
}

/* By its number and its user: before Linux 6.9 a number is a pid, which another user's process may have later. */
TEST(connections_of_a_process_are_counted_together)
{
        struct account *account = must_ref(UID, "/one"), *other = must_ref(UID, "/two");
        const struct process_key key = {.number = 7, .uid = 5};
        const struct process_key of_another = {.number = 7, .uid = 6};
        const struct process_key later = {.number = 8, .uid = 5};
        struct process_member members[5];
        struct process *process = must_join(account, &key, &members[0]);
        struct process *others[3] = {must_join(account, &of_another, &members[2]),
                                     must_join(account, &later, &members[3]),
                                     must_join(other, &key, &members[4])};

        ck_assert_ptr_eq(must_join(account, &key, &members[1]), process);
        ck_assert_uint_eq(process->n_members, 2);
        ck_assert_ptr_eq(LIST_FIRST(&process->members), &members[1]);
        ck_assert_ptr_eq(LIST_NEXT(&members[1], link), &members[0]);
        ck_assert_uint_eq(account->n_members, 4);
        for (unsigned i = 0; i < 3; i++) {
                ck_assert_ptr_ne(others[i], process);
                ck_assert_uint_eq(others[i]->n_members, 1);
        }
        (void)process_leave(process, &members[1]);
        ck_assert_ptr_eq(LIST_FIRST(&process->members), &members[0]);
        ck_assert_uint_eq(process->n_members, 1);
        ck_assert_uint_eq(account->n_members, 3);
        (void)process_leave(process, &members[0]);
        for (unsigned i = 0; i < 3; i++)
                (void)process_leave(others[i], &members[2 + i]);
        ck_assert_uint_eq(account->n_members, 0);
        ck_assert_ptr_null(account->processes);
        ck_assert_ptr_null(process_leave(NULL, &members[0]));
        (void)account_unref(account);
        (void)account_unref(other);
}

/* While another user has work, what one owes is remembered. Beside its account none has work. */
TEST(what_leaves_and_comes_back_still_owes)
{
        struct account *account = must_ref(UID, "/one"), *busy = must_ref(OTHER, "");
        const struct process_key key = {.number = 7, .uid = UID};
        struct process_member member, busy_member;
        struct process *process = must_join(account, &key, &member);
        struct process *at_work = must_join(busy, &key, &busy_member);
        struct task task = {.payer = NULL};

        payer_put(&at_work->payer, &task);
        payer_charge(&process->payer, 1000);
        (void)process_leave(process, &member);
        (void)account_unref(account);
        ck_assert_uint_eq(HASH_COUNT(all.users), 2);
        account = must_ref(UID, "/one");
        ck_assert_uint_eq(account->user->payer.used_ns, 1000);
        ck_assert_uint_eq(account->payer.used_ns, 0);
        (void)account_unref(account);
        payer_take_out(&task);
        /* An account is forgotten when that changes nothing any more. */
        (void)process_leave(at_work, &busy_member);
        (void)account_unref(busy);
        ck_assert_uint_eq(HASH_COUNT(all.users), 0);
}

/* Its account is kept for that, too; it is unused all the same. */
TEST(a_process_that_owes_makes_no_use_of_its_account)
{
        struct account *account = must_ref(UID, "/one");
        const struct process_key key = {.number = 7, .uid = UID}, later = {.number = 8, .uid = UID};
        struct process_member member, busy_member;
        struct process *process = must_join(account, &key, &member);
        struct process *at_work = must_join(account, &later, &busy_member);
        struct task task = {.payer = NULL};

        payer_put(&at_work->payer, &task);
        payer_charge(&process->payer, 1000);
        (void)process_leave(process, &member);
        ck_assert_uint_eq(account->payer.n_children, 2);
        payer_take_out(&task);
        ck_assert(!accounts_are_unused(&all));
        (void)account_unref(account);
        ck_assert_uint_eq(account->payer.n_children, 2);
        ck_assert(accounts_are_unused(&all));
        (void)process_leave(at_work, &busy_member);
}

/* As the server does for a connection that it has only accepted. */
TEST(a_user_is_known_before_its_accounts)
{
        struct account *account;
        struct user *user;

        ck_assert_int_eq(user_ref(&all, UID, &user), 0);
        ck_assert(accounts_are_unused(&all));
        account = must_ref(UID, "/one");
        ck_assert_ptr_eq(account->user, user);
        ck_assert_ptr_null(user_unref(user));
        ck_assert_ptr_eq(account->user, user);
        ck_assert_ptr_null(account_unref(account));
        ck_assert_ptr_null(all.users);
        ck_assert_ptr_null(user_unref(NULL));
        ck_assert_ptr_null(account_unref(NULL));
}

/* Each allocation fails in its turn, until there is none left to fail. */
TEST(without_memory_none_is_counted)
{
        const struct process_key key = {.number = 7, .uid = UID};
        int n_failed = 0, r = -ENOMEM;

        for (int n = 0; r; n++) {
                struct process_member member;
                struct account *account = NULL;
                struct process *process;

                n_until_failure = n;
                r = account_ref(&all, UID, "/one", &account);
                if (!r)
                        r = process_join(account, &key, &member, &process);
                n_until_failure = -1;
                if (r) {
                        ck_assert_int_eq(r, -ENOMEM);
                        n_failed++;
                } else {
                        ck_assert_uint_eq(account->n_members, 1);
                        (void)process_leave(process, &member);
                }
                if (account)
                        ck_assert_uint_eq(account->n_members, 0);
                (void)account_unref(account);
                ck_assert_ptr_null(all.users);
        }
        /* Of each: itself, a place in a table, a place among its parent's children. */
        ck_assert_int_ge(n_failed, 3 * 3);
}

/* Else a process that connects again and again would write without limit. */
TEST(the_limit_of_lines_in_the_log_outlives_a_user_s_connections)
{
        struct account *account = must_ref(UID, "");
        unsigned n_lines = 0;

        for (unsigned i = 0; i < 100; i++) {
                n_lines += log_may(account_log_limit(account), LOG_INFO, 1, "it");
                account_unref(account);
                account = must_ref(UID, "");
        }
        account_unref(account);
        ck_assert_uint_gt(n_lines, 0);
        ck_assert_uint_lt(n_lines, 20);
        account = must_ref(OTHER, "");
        ck_assert(log_may(account_log_limit(account), LOG_INFO, 1, "it"));
        account_unref(account);
}

/* So many containers halve what is left until nothing is. */
#define N_GREEDY 12

static unsigned take_all_it_can(struct account *account, struct due *dues, unsigned n_most)
{
        unsigned n = 0;

        while (n < n_most && due_begin(&dues[n], account->allowance, KIND, 1) == 0)
                n++;
        return n;
}

/* Root runs those of many people: what is kept for users that have little is for each of them, and for root. */
TEST(containers_that_root_runs_leave_something_to_others_of_root)
{
        struct due dues[N_GREEDY][1000], due = DUE_NULL;
        struct account *greedy[N_GREEDY], *other = must_ref(0, "/other"), *root = must_ref(0, "");

        all.allowances.max[KIND] = 100;
        all.allowances.kept[KIND] = 25;
        all.allowances.least[KIND] = 1;
        all.allowances.max_each[KIND] = all.allowances.max_tenants[KIND] = UINT64_MAX;
        memset(dues, 0, sizeof(dues));
        for (unsigned i = 0; i < N_GREEDY; i++) {
                greedy[i] = must_ref_nth(0, i);
                ck_assert_uint_gt(take_all_it_can(greedy[i], dues[i], 1000), 0);
        }
        ck_assert_int_eq(due_begin(&due, other->allowance, KIND, 1), 0);
        due_end(&due);
        ck_assert_int_eq(due_begin(&due, root->allowance, KIND, 1), 0);
        due_end(&due);
        for (unsigned i = 0; i < N_GREEDY; i++) {
                for (unsigned k = 0; k < 1000; k++)
                        due_end(&dues[i][k]);
                account_unref(greedy[i]);
        }
        account_unref(other);
        account_unref(root);
}

static unsigned log_as(uint32_t uid, unsigned n, uint64_t now_ns)
{
        struct account *account = must_ref(uid, "");
        unsigned n_lines = 0;

        for (unsigned i = 0; i < n; i++)
                n_lines += log_may(account_log_limit(account), LOG_INFO, now_ns, "it");
        account_unref(account);
        return n_lines;
}

/* A user could keep what others did out of the log, if their uids were 256 apart. */
TEST(a_user_leaves_no_lines_of_others_out_of_the_log)
{
        for (uint32_t uid = UID; uid < UID + 8 * 256; uid += 256)
                ck_assert_uint_eq(log_as(uid, 100, NS_PER_S), LOG_LINES_A_SECOND);
        for (uint32_t uid = UID; uid < UID + 8 * 256; uid += 256)
                ck_assert_uint_eq(log_as(uid, 1, NS_PER_S), 0);
        ck_assert_uint_eq(log_as(UID + 8 * 256, 1, 2 * NS_PER_S), 1);
        ck_assert_uint_eq(log_as(UID + 256, 1, NS_PER_S), 0);
}

static uint64_t number_of(uint32_t uid, const char *realm)
{
        struct account *account = must_ref(uid, realm);
        uint64_t number = account->payer.owner;

        (void)account_unref(account);
        return number;
}

/* What workers do is divided by these numbers. One that goes and comes again owes what it owed, and no other user does. */
TEST(an_owner_has_the_same_number_when_it_comes_again)
{
        struct account *other;
        uint64_t number = number_of(UID, "");

        other = must_ref(OTHER, "");
        ck_assert_uint_ne(other->payer.owner, number);
        ck_assert_uint_eq(number_of(UID, "/container"), number);
        (void)account_unref(other);
}

/* Root runs those of many people. */
TEST(each_container_that_root_runs_is_an_owner)
{
        uint64_t number = number_of(0, "/container-1");

        ck_assert_uint_ne(number_of(0, "/container-2"), number);
        ck_assert_uint_ne(number_of(0, ""), number);
        ck_assert_uint_eq(number_of(0, "/container-1"), number);
}

static unsigned arrive_all(struct account *account)
{
        unsigned n = 0;

        for (; account_may_arrive(account, 1000); n++)
                account_arrive(account);
        return n;
}

static void end_arrivals(struct account *account, unsigned n)
{
        while (n--)
                account_end_arrival(account);
        (void)account_unref(account);
}

TEST(each_container_leaves_places_to_connect)
{
        struct account *accounts[8], *other = must_ref(OTHER, "");
        unsigned n[ARRAY_SIZE(accounts)], n_other;

        for (unsigned i = 0; i < ARRAY_SIZE(accounts); i++) {
                accounts[i] = must_ref_nth(0, i);
                n[i] = arrive_all(accounts[i]);
                ck_assert_uint_ge(n[i], 1000 >> (i + 1));
        }
        ck_assert_uint_eq(n[0], 500);
        ck_assert_uint_eq(n[1], 250);
        n_other = arrive_all(other);
        ck_assert_uint_eq(n_other, 500);
        for (unsigned i = 0; i < ARRAY_SIZE(accounts); i++)
                end_arrivals(accounts[i], n[i]);
        end_arrivals(other, n_other);
}

TESTS_MAIN("users", .start = start, .stop = stop)
