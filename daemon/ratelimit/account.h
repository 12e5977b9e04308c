/* SPDX-License-Identifier: Apache-2.0 */
/* Accounts: a user's processes in one container, or outside of all, are counted together, from the moment
 * they connect. An account limits a tenant's part of what all users share, how fast it may ask, and how
 * many accounts a user has.
 *
 * A user can make any number of containers, so it has at most ACCOUNTS_A_USER accounts of its own; later
 * containers share one. An account lives while it is referred to, and then until its token bucket is full
 * again, so that a client is not faster when it leaves and comes back. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "base/table.h"
#include "daemon/ratelimit/allowance.h"
#include "daemon/ratelimit/token_bucket.h"

#define ACCOUNTS_A_USER   256
#define ACCOUNT_REALM_MAX 252 /* of a realm's name, with the terminating 0 */

/* Realms that no container has. */
#define ACCOUNT_UNREADABLE "unreadable" /* a prefix: the container cannot be read */
#define ACCOUNT_MORE       "more"       /* shared by containers beyond the limit */

/* All tenants of a user together may use so many times the share of one. */
#define USER_TIMES 4

struct account;

struct user {
        uint32_t uid;
        unsigned n_accounts;
        struct account *accounts; /* by realm */
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
        struct allowance *allowance; /* from which dues are taken: its own, or the user's */
        struct token_bucket bucket;
        struct token_bucket
                share; /* its part of the user's rate, while other accounts use that up */
        struct log_limit refusals; /* limits its lines in the log */
        UT_hash_handle hh;
};

struct accounts {
        struct user *users; /* by uid */
        struct allowances allowances;
        struct token_bucket_rule rule; /* of each account */
        bool one_a_user;               /* containers make no difference */
};

/* The account of the user in that realm, or its shared one if it has too many; -ENOMEM. */
int account_ref(struct accounts *all, uint32_t uid, const char *realm, uint64_t now_ns,
                struct account **ret_account);
struct account *account_unref(struct account *account);

/* The account is the one for containers beyond the limit. */
bool account_is_of_more(const struct account *account);

/* References to accounts of its user in realms that cannot be read. */
unsigned account_n_unreadable(const struct account *account);

/* No account is referred to. */
bool accounts_are_unused(const struct accounts *all);
void accounts_deinit(struct accounts *all);

/* When it may ask again: now, or later. Each tenant of a user has the rate of one, and all together
 * USER_TIMES that; but each has its own part of it, whatever the others do. */
uint64_t account_ready_ns(const struct account *account, uint64_t now_ns);

/* Charges a request, even if the rate does not allow it: the account then owes it. */
void account_pay(struct account *account, uint64_t now_ns);
