/* SPDX-License-Identifier: Apache-2.0 */
/* account: which processes share an account, how many accounts a user has, and how fast they may ask. */
#include "daemon/ratelimit/account.h"

#include <stdio.h>

#include "gpumem.h"
#include "tests/suite.h"
#include "tests/unit/support/failing_alloc.h"

#define KIND     ALLOWANCE_CONNECTIONS
#define SECOND   UINT64_C(1000000000)
#define A_SECOND 100
#define UID      1000
#define OTHER    1001

static struct accounts all;

static void start(void)
{
        all = (struct accounts){.rule = token_bucket_rule_of(A_SECOND)};
        for (unsigned kind = 0; kind < ALLOWANCE_N_KINDS; kind++) {
                all.allowances.max[kind] = 1000;
                all.allowances.max_each[kind] = 10;
                all.allowances.max_user[kind] = USER_TIMES * 10;
        }
}

static void stop(void)
{
        accounts_deinit(&all);
        ck_assert_ptr_null(all.users);
}

static struct account *must_ref(uint32_t uid, const char *realm, uint64_t now_ns)
{
        struct account *account;

        ck_assert_int_eq(account_ref(&all, uid, realm, now_ns, &account), 0);
        return account;
}

static struct account *must_ref_nth(uint32_t uid, unsigned n, uint64_t now_ns)
{
        char realm[32];

        (void)snprintf(realm, sizeof(realm), "/container-%u", n);
        return must_ref(uid, realm, now_ns);
}

static bool may_ask(const struct account *account, uint64_t now_ns)
{
        return account_ready_ns(account, now_ns) == now_ns;
}

/* Asks as often as it may at that time; returns how often. */
static unsigned ask_all(struct account *account, uint64_t now_ns)
{
        unsigned n = 0;

        for (; may_ask(account, now_ns); n++)
                account_pay(account, now_ns);
        return n;
}

/* Asks as fast as it may from one time to the other. */
static unsigned ask_on(struct account *account, uint64_t now_ns, uint64_t until_ns)
{
        unsigned n = 0;

        while ((now_ns = account_ready_ns(account, now_ns)) < until_ns) {
                account_pay(account, now_ns);
                n++;
        }
        return n;
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
        struct account *outside = must_ref(UID, "", 0), *one = must_ref(UID, "/one", 0);
        struct account *other = must_ref(OTHER, "/one", 0);

        ck_assert_ptr_eq(must_ref(UID, "/one", 0), one);
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
        struct account *greedy[USER_TIMES + 1], *other = must_ref(OTHER, "", 0);
        struct due dues[USER_TIMES + 1][12] = {{DUE_NULL}}, more[12] = {DUE_NULL};
        unsigned n = 0;

        for (unsigned i = 0; i <= USER_TIMES; i++)
                greedy[i] = must_ref_nth(UID, i, 0);
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
        one = must_ref(UID, "/one", 0);
        other = must_ref(UID, "/other", 0);
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
                accounts[i] = must_ref_nth(UID, i, 0);
                ck_assert(!account_is_of_more(accounts[i]));
                for (unsigned k = 0; i < 3 && k < i; k++)
                        ck_assert_ptr_ne(accounts[k], accounts[i]);
        }
        more = must_ref(UID, "/one-more", 0);
        again = must_ref(UID, "/and-another", 0);
        ck_assert(account_is_of_more(more));
        ck_assert_ptr_eq(more, again);
        ck_assert_uint_eq(more->user->n_accounts, ACCOUNTS_A_USER + 1);
        /* Accounts that exist stay separate. */
        ck_assert_ptr_eq(must_ref_nth(UID, 7, 0), accounts[7]);
        (void)account_unref(accounts[7]);
        other = must_ref(OTHER, "/one-more", 0);
        ck_assert(!account_is_of_more(other));
        (void)account_unref(other);
        (void)account_unref(more);
        (void)account_unref(again);
        /* After they have gone there is room again. */
        (void)account_unref(accounts[0]);
        accounts[0] = must_ref(UID, "/one-more", 0);
        ck_assert(!account_is_of_more(accounts[0]));
        for (unsigned i = 0; i < ACCOUNTS_A_USER; i++)
                (void)account_unref(accounts[i]);
}

/* Also those that have accounts of their own. */
TEST(those_that_cannot_be_read_are_counted_together)
{
        struct account *one = must_ref(UID, ACCOUNT_UNREADABLE " 1", 0);
        struct account *again = must_ref(UID, ACCOUNT_UNREADABLE " 1", 0);
        struct account *two = must_ref(UID, ACCOUNT_UNREADABLE " 2", 0);
        struct account *readable = must_ref(UID, "/one", 0);
        struct account *other = must_ref(OTHER, ACCOUNT_UNREADABLE " 1", 0);

        ck_assert_ptr_ne(one, two);
        ck_assert_uint_eq(account_n_unreadable(one), 3);
        ck_assert_uint_eq(account_n_unreadable(readable), 3);
        ck_assert_uint_eq(account_n_unreadable(other), 1);
        (void)account_unref(again);
        ck_assert_uint_eq(account_n_unreadable(two), 2);
        (void)account_unref(one);
        (void)account_unref(two);
        (void)account_unref(readable);
        (void)account_unref(other);
}

TEST(who_leaves_and_comes_back_is_no_faster)
{
        struct account *account = must_ref(UID, "/one", 0);

        ck_assert_uint_eq(ask_all(account, 0), 2 * A_SECOND);
        (void)account_unref(account);
        account = must_ref(UID, "/one", 0);
        ck_assert(!may_ask(account, 0));
        (void)account_unref(account);
        account = must_ref(UID, "/one", SECOND);
        ck_assert_uint_eq(ask_all(account, SECOND), A_SECOND);
        (void)account_unref(account);
        /* An account is forgotten when that changes nothing any more. */
        account = must_ref(OTHER, "", 3 * SECOND);
        ck_assert_uint_eq(HASH_COUNT(all.users), 1);
        (void)account_unref(account);
}

TEST(one_container_leaves_pace_for_the_users_others)
{
        struct account *greedy = must_ref(UID, "/greedy", 0), *quiet = must_ref(UID, "/quiet", 0);

        ck_assert_uint_eq(ask_all(greedy, 0), 2 * A_SECOND);
        ck_assert(!may_ask(greedy, 0));
        ck_assert_uint_eq(ask_all(quiet, 0), 2 * A_SECOND);
        (void)account_unref(greedy);
        (void)account_unref(quiet);
}

/* The accounts of a user that all ask have USER_TIMES the rate of one together, and each has its part, also
 * one that comes late. */
TEST(a_users_containers_have_a_pace_together)
{
        enum { N = 20, UNTIL = 50 };
        struct account *greedy[N], *late;
        unsigned n = 0, n_late;

        for (unsigned i = 0; i < N; i++)
                greedy[i] = must_ref_nth(UID, i, 0);
        late = must_ref(UID, "/late", 0);
        for (unsigned i = 0; i < N; i++)
                n += ask_on(greedy[i], 0, UNTIL * SECOND);
        ck_assert_uint_ge(n, UNTIL * USER_TIMES * A_SECOND / 2);
        ck_assert_uint_le(n, (UNTIL + 2) * 2 * USER_TIMES * A_SECOND);
        n_late = ask_on(late, 0, UNTIL * SECOND);
        ck_assert_uint_ge(n_late, UNTIL * USER_TIMES * A_SECOND / (N + 1));
        ck_assert_uint_le(n_late, (UNTIL + 2) * A_SECOND);
        for (unsigned i = 0; i < N; i++)
                (void)account_unref(greedy[i]);
        (void)account_unref(late);
}

TEST(what_is_owed_is_the_accounts_own)
{
        struct account *greedy = must_ref(UID, "/greedy", 0), *quiet = must_ref(UID, "/quiet", 0);

        for (unsigned i = 0; i < 1000 * A_SECOND; i++)
                account_pay(greedy, 0);
        ck_assert_uint_ge(account_ready_ns(greedy, 0), 900 * SECOND);
        ck_assert(may_ask(quiet, 0));
        ck_assert_uint_ge(ask_on(quiet, 0, 10 * SECOND), 10 * A_SECOND);
        (void)account_unref(greedy);
        (void)account_unref(quiet);
}

TEST(without_memory_nobody_is_counted)
{
        struct account *account;
        int r;

        is_memory_gone = true;
        r = account_ref(&all, UID, "", 0, &account);
        is_memory_gone = false;
        ck_assert_int_eq(r, -ENOMEM);
        for (int n = 0; n < 4; n++) {
                n_until_failure = n;
                r = account_ref(&all, UID, "", 0, &account);
                n_until_failure = -1;
                if (r) {
                        ck_assert_int_eq(r, -ENOMEM);
                        continue;
                }
                (void)account_unref(account);
        }
        (void)account_unref(must_ref(UID, "", 0));
}

TESTS_MAIN("account", .start = start, .stop = stop)
