/* SPDX-License-Identifier: Apache-2.0 */
/* allowance: how much one user may take of a shared resource, and that all of it comes back. */
#include "daemon/fairness/allowance.h"
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

/* After each step the sums are those of the dues that exist; at the end all are 0. */
TEST(every_due_is_given_back)
{
        struct allowances all = all_of(1000, 700);
        struct allowance users[3] = {{.all = &all}, {.all = &all}, {.all = &all}};
        struct due dues[64] = {DUE_NULL};
        unsigned seed = 4711;

        for (unsigned step = 0; step < 20000; step++) {
                struct due *due = &dues[(unsigned)rand_r(&seed) % 64];
                struct allowance *user = &users[(unsigned)rand_r(&seed) % 3];
                uint64_t n = (unsigned)rand_r(&seed) % 40, sum = 0;

                if (due->allowance && n % 3 == 0)
                        due_end(due);
                else if (due->allowance && n % 3 == 1)
                        due_shrink(due, n < due->n ? n : due->n);
                else if (due->allowance && allowance_fits(due->allowance, KIND, n))
                        due_grow(due, n);
                else if (!due->allowance)
                        (void)due_begin(due, user, KIND, n);
                for (unsigned i = 0; i < 64; i++)
                        sum += dues[i].n;
                ck_assert_uint_eq(all.n[KIND], sum);
                ck_assert_uint_le(sum, 1000);
                for (unsigned i = 0; i < 3; i++)
                        ck_assert_uint_le(users[i].n[KIND], 700);
        }
        for (unsigned i = 0; i < 64; i++)
                due_end(&dues[i]);
        for (unsigned i = 0; i < 3; i++)
                ck_assert(allowance_is_unused(&users[i]));
        ck_assert_uint_eq(all.n[KIND], 0);
}

TESTS_MAIN("allowance")
