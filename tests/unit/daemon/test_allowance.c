/* SPDX-License-Identifier: Apache-2.0 */
/* allowance: how much one user may take of a shared resource, and that all of it comes back. */
#include "daemon/fairness/allowance.h"

#include <assert.h>

#include "gpumem.h"
#include "tests/suite.h"

#define KIND ALLOWANCE_CONNECTIONS

static struct allowances all_of(uint64_t max, uint64_t max_each)
{
        struct allowances all = {.n = {0}};

        for (unsigned kind = 0; kind < ALLOWANCE_N_KINDS; kind++) {
                all.max[kind] = max;
                all.max_each[kind] = max_each;
        }
        return all;
}

/* Takes one at a time until no more is given. */
static unsigned take_all(struct allowance *allowance, struct due *dues, unsigned n_dues)
{
        unsigned n = 0;

        while (n < n_dues && due_begin(&dues[n], allowance, KIND, 1) == 0)
                n++;
        return n;
}

TEST(who_comes_later_finds_something)
{
        struct allowances all = all_of(60, 60);
        struct allowance users[3] = {{.all = &all}, {.all = &all}, {.all = &all}};
        struct due dues[3][60] = {{DUE_NULL}};

        ck_assert_uint_eq(take_all(&users[0], dues[0], 60), 30);
        ck_assert_uint_eq(take_all(&users[1], dues[1], 60), 15);
        ck_assert_uint_eq(take_all(&users[2], dues[2], 60), 8);
        ck_assert(!allowance_fits(&users[0], KIND, 1));
}

TEST(there_is_a_most_for_each)
{
        struct allowances all = all_of(60, 4);
        struct allowance one = {.all = &all}, other = {.all = &all};
        struct due dues[8] = {DUE_NULL}, due = DUE_NULL;

        ck_assert_uint_eq(take_all(&one, dues, 8), 4);
        ck_assert_int_eq(due_begin(&due, &one, KIND, 1), GPUMEM_E_TOO_MANY);
        ck_assert_ptr_null(due.allowance);
        ck_assert_int_eq(due_begin(&due, &other, KIND, 5), GPUMEM_E_TOO_MANY);
        ck_assert_int_eq(due_begin(&due, &other, KIND, 4), 0);
        ck_assert_int_eq(due_begin(&due, &one, ALLOWANCE_QUEUED_BYTES, 4), 0);
}

/* Two tenants of one user, and another user. */
TEST(a_tenant_leaves_something_for_its_users_others)
{
        struct allowances all = all_of(60, 30);
        struct allowance user = {.all = &all, .has_tenants = true}, other = {.all = &all};
        struct allowance one = {.all = &all, .parent = &user};
        struct allowance two = {.all = &all, .parent = &user};
        struct due dues[3][60] = {{DUE_NULL}}, much = DUE_NULL;

        for (unsigned kind = 0; kind < ALLOWANCE_N_KINDS; kind++)
                all.max_tenants[kind] = 24;
        ck_assert_uint_eq(take_all(&one, dues[0], 60), 12);
        ck_assert_uint_eq(take_all(&two, dues[1], 60), 6);
        ck_assert_uint_eq(user.n[KIND], 18);
        ck_assert_uint_eq(take_all(&other, dues[2], 60), 21);
        due_end(&dues[0][0]);
        ck_assert_uint_eq(user.n[KIND], 17);
        /* The total has little left, and the user has more than that. */
        ck_assert_int_eq(due_begin(&much, &two, ALLOWANCE_IN_FLIGHT, 25), GPUMEM_E_TOO_MANY);
        ck_assert(!allowance_fits(&two, KIND, 6));
        for (unsigned i = 0; i < 3; i++) {
                for (unsigned k = 0; k < 60; k++)
                        due_end(&dues[i][k]);
        }
        ck_assert_uint_eq(all.n[KIND], 0);
        ck_assert(allowance_is_unused(&user));
}

/* Two processes of one tenant, one of another, and another user. */
TEST(a_process_leaves_something_for_its_tenants_others)
{
        struct allowances all = all_of(60, 60);
        struct allowance user = {.all = &all, .has_tenants = true}, other = {.all = &all};
        struct allowance tenant = {.all = &all, .parent = &user};
        struct allowance second = {.all = &all, .parent = &user};
        struct allowance one = {.all = &all, .parent = &tenant};
        struct allowance two = {.all = &all, .parent = &tenant};
        struct due dues[4][60] = {{DUE_NULL}};

        for (unsigned kind = 0; kind < ALLOWANCE_N_KINDS; kind++)
                all.max_tenants[kind] = 60;
        ck_assert_uint_eq(take_all(&one, dues[0], 60), 15);
        ck_assert_uint_eq(take_all(&two, dues[1], 60), 4);
        ck_assert_uint_eq(tenant.n[KIND], 19);
        ck_assert_uint_eq(user.n[KIND], 19);
        ck_assert_uint_gt(take_all(&second, dues[2], 60), 6);
        ck_assert_uint_gt(take_all(&other, dues[3], 60), 10);
        for (unsigned i = 0; i < 4; i++) {
                for (unsigned k = 0; k < 60; k++)
                        due_end(&dues[i][k]);
        }
        ck_assert_uint_eq(all.n[KIND], 0);
        ck_assert(allowance_is_unused(&user) && allowance_is_unused(&tenant) &&
                  allowance_is_unused(&one));
}

#define N_USERS 12

/* Each takes what it may. The first two get a half, and what is not kept of the rest. */
TEST(users_that_come_in_turn_find_the_least)
{
        struct allowances all = all_of(60, 60);
        struct allowance users[N_USERS];
        struct allowance one_more = {.all = &all};
        struct due dues[N_USERS][60] = {{DUE_NULL}};

        all.kept[KIND] = 20;
        all.least[KIND] = 2;
        for (unsigned i = 0; i < N_USERS; i++) {
                users[i] = (struct allowance){.all = &all};
                ck_assert_uint_eq(take_all(&users[i], dues[i], 60), i == 0 ? 30 : i == 1 ? 10 : 2);
        }
        ck_assert(!allowance_fits(&one_more, KIND, 1));
        due_end(&dues[11][0]);
        ck_assert(!allowance_fits(&users[0], KIND, 1) && !allowance_fits(&users[1], KIND, 1));
        ck_assert(!allowance_fits(&users[10], KIND, 1) && allowance_fits(&users[11], KIND, 1));
}

/* The least is its user's, whichever of its processes comes first. */
TEST(a_process_may_have_the_least_of_its_user)
{
        struct allowances all = all_of(32, 32);
        struct allowance much = {.all = &all}, user = {.all = &all, .has_tenants = true};
        struct allowance tenant = {.all = &all, .parent = &user};
        struct allowance one = {.all = &all, .parent = &tenant};
        struct allowance two = {.all = &all, .parent = &tenant};
        struct due dues[60] = {DUE_NULL}, first = DUE_NULL, second = DUE_NULL;

        all.kept[KIND] = 16;
        all.least[KIND] = 4;
        ck_assert_uint_eq(take_all(&much, dues, 60), 16);
        ck_assert_int_eq(due_begin(&first, &one, KIND, 5), GPUMEM_E_TOO_MANY);
        ck_assert_int_eq(due_begin(&first, &one, KIND, 3), 0);
        ck_assert_int_eq(due_begin(&second, &two, KIND, 2), GPUMEM_E_TOO_MANY);
        ck_assert_int_eq(due_begin(&second, &two, KIND, 1), 0);
        ck_assert(!allowance_fits(&one, KIND, 1) && !allowance_fits(&two, KIND, 1));
}

/* As after a reload of the configuration. What is held stays, and no number overflows. */
TEST(less_than_is_held_may_be_allowed)
{
        struct allowances all = all_of(UINT64_MAX, UINT64_MAX);
        struct allowance user = {.all = &all};
        struct due due = DUE_NULL;

        ck_assert_int_eq(due_begin(&due, &user, KIND, 40), 0);
        all.max_each[KIND] = 10;
        ck_assert(!allowance_fits(&user, KIND, 0));
        all.max_each[KIND] = UINT64_MAX;
        all.max[KIND] = 10;
        ck_assert(!allowance_fits(&user, KIND, 0));
        due_shrink(&due, 36);
        ck_assert(allowance_fits(&user, KIND, 1));
        ck_assert(!allowance_fits(&user, KIND, 3));
        due_end(&due);
        ck_assert(allowance_is_unused(&user));
}

#define MAX      1000
#define MAX_EACH 700
#define KEPT     250
#define LEAST    20
#define N_DUES   64
static_assert(N_USERS * LEAST <= KEPT, "it is enough for all users");

/* Users with two tenants each, of which each has two processes. */
static struct crowd {
        struct allowances all;
        struct allowance users[N_USERS], tenants[N_USERS][2], processes[N_USERS][2][2];
        struct due dues[N_DUES];
} crowd;

static void begin_crowd(void)
{
        crowd.all = all_of(MAX, MAX_EACH);
        crowd.all.max_tenants[KIND] = MAX_EACH;
        crowd.all.kept[KIND] = KEPT;
        crowd.all.least[KIND] = LEAST;
        for (unsigned i = 0; i < N_USERS; i++) {
                struct allowance *user = &crowd.users[i];

                *user = (struct allowance){.all = &crowd.all, .has_tenants = true};
                for (unsigned k = 0; k < 4; k++) {
                        struct allowance *tenant = &crowd.tenants[i][k / 2];

                        *tenant = (struct allowance){.all = &crowd.all, .parent = user};
                        crowd.processes[i][k / 2][k % 2] = (struct allowance){.all = &crowd.all,
                                                                              .parent = tenant};
                }
        }
}

/* A user without tenants takes for itself; another one's processes do. */
static struct allowance *any_allowance(unsigned number)
{
        unsigned user = number % N_USERS, part = number / N_USERS % 4;

        return user % 3 == 0 ? &crowd.users[user] : &crowd.processes[user][part / 2][part % 2];
}

static uint64_t n_of_dues(const struct allowance *user)
{
        uint64_t n = 0;

        for (unsigned i = 0; i < N_DUES; i++) {
                const struct allowance *of = crowd.dues[i].allowance;

                while (of && of->parent)
                        of = of->parent;
                n += of == user ? crowd.dues[i].n : 0;
        }
        return n;
}

/* The sums are those of the dues that exist. Whatever the others have, a user finds the least. */
static void check_crowd(void)
{
        uint64_t n = 0, n_most = MAX - KEPT;

        for (unsigned i = 0; i < N_USERS; i++) {
                uint64_t n_user = crowd.users[i].n[KIND];

                ck_assert_uint_eq(n_user, n_of_dues(&crowd.users[i]));
                ck_assert_uint_le(n_user, MAX_EACH);
                n += n_user;
                n_most += n_user < LEAST ? n_user : LEAST;
                if (n_user < LEAST)
                        ck_assert(allowance_fits(any_allowance(i), KIND, LEAST - n_user));
        }
        ck_assert_uint_eq(crowd.all.n[KIND], n);
        ck_assert_uint_le(n, n_most);
}

static void change(struct due *due, struct allowance *allowance, uint64_t n)
{
        if (due->allowance && n % 3 == 0)
                due_end(due);
        else if (due->allowance && n % 3 == 1)
                due_shrink(due, n < due->n ? n : due->n);
        else if (due->allowance && allowance_fits(due->allowance, KIND, n))
                due_grow(due, n);
        else if (!due->allowance)
                (void)due_begin(due, allowance, KIND, n);
}

/* At times a few users take most, at times all take part. At the end all is given back. */
TEST(every_due_is_given_back)
{
        unsigned seed = 4711;

        begin_crowd();
        for (unsigned step = 0; step < 20000; step++) {
                struct due *due = &crowd.dues[(unsigned)rand_r(&seed) % N_DUES];
                unsigned number = (unsigned)rand_r(&seed);

                change(due, any_allowance(step / 500 % 2 ? number : number % 3),
                       (unsigned)rand_r(&seed) % 40);
                check_crowd();
        }
        for (unsigned i = 0; i < N_DUES; i++)
                due_end(&crowd.dues[i]);
        for (unsigned i = 0; i < N_USERS; i++)
                ck_assert(allowance_is_unused(&crowd.users[i]));
        ck_assert_uint_eq(crowd.all.n[KIND], 0);
}

TESTS_MAIN("allowance")
