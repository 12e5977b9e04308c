/* SPDX-License-Identifier: Apache-2.0 */
/* Who is counted together, from the moment at which he connects: a user's processes in one container, or outside
 * of all. What such a tenant has of what all share, how fast it may ask, and how many of them one user has.
 *
 * A user may name as many containers as it likes, so there are ACCOUNTS_A_USER of its own at most; those that
 * come later are one together. An account lives while somebody refers to it, and then until its pace is
 * whole again: who leaves and comes back is no faster. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "base/table.h"
#include "daemon/ratelimit/allowance.h"
#include "daemon/ratelimit/token_bucket.h"

#define ACCOUNTS_A_USER   256
#define ACCOUNT_REALM_MAX 252 /* bytes of a realm's name, with the 0 at its end */

/* Realms that no container has. */
#define ACCOUNT_UNREADABLE "unreadable" /* begins so: which it is cannot be known */
#define ACCOUNT_MORE       "more"       /* than a user may have of its own */

/* What a user's tenants have together, in times of what each has. */
#define USER_TIMES 4

struct account;

struct user {
        uint32_t uid;
        unsigned n_accounts;
        struct account *accounts; /* table by realm */
        struct allowance allowance;
        struct token_bucket bucket; /* of them together */
        UT_hash_handle hh;
};

struct account {
        struct accounts *all;
        struct user *user;
        char realm[ACCOUNT_REALM_MAX];
        unsigned n_refs;
        struct allowance own;
        struct allowance *allowance; /* of which dues are taken: its own, or the user's */
        struct token_bucket bucket;
        struct token_bucket share; /* of the user's pace, while others use that up */
        struct log_limit refusals; /* what it may cause in the log */
        UT_hash_handle hh;
};

struct accounts {
        struct user *users; /* table by uid */
        struct allowances allowances;
        struct token_bucket_rule rule; /* of each account */
        bool one_a_user;               /* containers make no difference */
};

/* The account of that user's in that realm, or the one for those that are too many; -ENOMEM. */
int account_ref(struct accounts *all, uint32_t uid, const char *realm, uint64_t now_ns,
                struct account **ret_account);
struct account *account_unref(struct account *account);

/* It is for all that are too many. */
bool account_is_of_more(const struct account *account);

/* How many refer to accounts of its user's in realms that cannot be known. */
unsigned account_n_unreadable(const struct account *account);

/* Nobody refers to any. */
bool accounts_are_unused(const struct accounts *all);
void accounts_deinit(struct accounts *all);

/* When it may ask again: now, or later. A user's tenants each have the pace of one, and together USER_TIMES
 * that; but each has its part of it, whatever the others do. */
uint64_t account_ready_ns(const struct account *account, uint64_t now_ns);

/* It asks, also where it may not: then it owes that. */
void account_pay(struct account *account, uint64_t now_ns);
