/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ratelimit/account.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void user_remove(struct accounts *all, struct user *user)
{
        assert(allowance_is_unused(&user->allowance));
        HASH_DEL(all->users, user);
        free(user);
}

static void account_remove(struct account *account)
{
        struct user *user = account->user;

        assert(!account->n_refs && allowance_is_unused(&account->own));
        HASH_DEL(user->accounts, account);
        user->n_accounts--;
        free(account);
}

/* Frees accounts without references whose token buckets are full: as new accounts they would not be faster. */
static void sweep_user(struct user *user, uint64_t now_ns)
{
        struct account *account, *next;

        HASH_ITER(hh, user->accounts, account, next)
        {
                if (!account->n_refs && account->bucket.full_ns <= now_ns &&
                    account->share.full_ns <= now_ns)
                        account_remove(account);
        }
}

static void sweep(struct accounts *all, uint64_t now_ns)
{
        struct user *user, *next;

        HASH_ITER(hh, all->users, user, next)
        {
                sweep_user(user, now_ns);
                if (!user->n_accounts && user->bucket.full_ns <= now_ns)
                        user_remove(all, user);
        }
}

static int user_get(struct accounts *all, uint32_t uid, struct user **ret_user)
{
        struct user *user;

        HASH_FIND(hh, all->users, &uid, sizeof(uid), user);
        if (!user) {
                user = calloc(1, sizeof(*user));
                if (!user)
                        return -ENOMEM;
                user->uid = uid;
                user->allowance.all = &all->allowances;
                HASH_ADD(hh, all->users, uid, sizeof(user->uid), user);
                if (!user->hh.tbl) {
                        free(user);
                        return -ENOMEM;
                }
        }
        *ret_user = user;
        return 0;
}

static int account_new(struct accounts *all, struct user *user, const char *realm,
                       struct account **ret_account)
{
        struct account *account = calloc(1, sizeof(*account));

        if (!account)
                return -ENOMEM;
        account->all = all;
        account->user = user;
        memcpy(account->realm, realm, strlen(realm));
        account->own.all = &all->allowances;
        account->own.user = &user->allowance;
        account->allowance = all->one_a_user ? &user->allowance : &account->own;
        HASH_ADD(hh, user->accounts, realm, sizeof(account->realm), account);
        if (!account->hh.tbl) {
                free(account);
                return -ENOMEM;
        }
        user->n_accounts++;
        *ret_account = account;
        return 0;
}

static struct account *find(struct user *user, const char *realm)
{
        char key[ACCOUNT_REALM_MAX] = "";
        struct account *account;

        memcpy(key, realm, strlen(realm));
        HASH_FIND(hh, user->accounts, key, sizeof(key), account);
        return account;
}

static int account_get(struct accounts *all, struct user *user, const char *realm,
                       struct account **ret_account)
{
        struct account *account = find(user, realm);

        if (!account && user->n_accounts >= ACCOUNTS_A_USER) {
                realm = ACCOUNT_MORE;
                account = find(user, realm);
        }
        if (!account)
                return account_new(all, user, realm, ret_account);
        *ret_account = account;
        return 0;
}

int account_ref(struct accounts *all, uint32_t uid, const char *realm, uint64_t now_ns,
                struct account **ret_account)
{
        struct account *account;
        struct user *user;
        int r;

        assert(strlen(realm) < ACCOUNT_REALM_MAX);
        sweep(all, now_ns);
        r = user_get(all, uid, &user);
        if (!r)
                r = account_get(all, user, all->one_a_user ? "" : realm, &account);
        if (r)
                return r;
        account->n_refs++;
        *ret_account = account;
        return 0;
}

struct account *account_unref(struct account *account)
{
        if (!account)
                return NULL;
        assert(account->n_refs);
        account->n_refs--;
        return NULL;
}

bool account_is_of_more(const struct account *account)
{
        return strcmp(account->realm, ACCOUNT_MORE) == 0;
}

unsigned account_n_unreadable(const struct account *account)
{
        unsigned n = 0;

        for (account = account->user->accounts; account; account = account->hh.next) {
                if (strncmp(account->realm, ACCOUNT_UNREADABLE, strlen(ACCOUNT_UNREADABLE)) == 0)
                        n += account->n_refs;
        }
        return n;
}

bool accounts_are_unused(const struct accounts *all)
{
        const struct account *account;
        const struct user *user;

        for (user = all->users; user; user = user->hh.next) {
                for (account = user->accounts; account; account = account->hh.next) {
                        if (account->n_refs)
                                return false;
                }
        }
        return true;
}

void accounts_deinit(struct accounts *all)
{
        sweep(all, UINT64_MAX);
        assert(!all->users);
}

static struct token_bucket_rule rule_of_user(const struct account *account)
{
        struct token_bucket_rule rule = account->all->rule;

        rule.step_ns = rule.step_ns / USER_TIMES ? rule.step_ns / USER_TIMES : 1;
        return rule;
}

/* The account's part of the user's rate: one of as many parts as the user has accounts, at least one
 * request at a time. */
static struct token_bucket_rule rule_of_share(const struct account *account)
{
        struct token_bucket_rule rule = rule_of_user(account);

        rule.step_ns *= account->user->n_accounts;
        if (rule.burst_ns < rule.step_ns)
                rule.burst_ns = rule.step_ns;
        return rule;
}

static uint64_t ready_for_user(const struct account *account, uint64_t now_ns)
{
        struct token_bucket_rule rule = rule_of_user(account), share = rule_of_share(account);
        uint64_t of_user_ns = token_bucket_ready_ns(&account->user->bucket, &rule, now_ns);
        uint64_t of_share_ns = token_bucket_ready_ns(&account->share, &share, now_ns);

        return of_user_ns < of_share_ns ? of_user_ns : of_share_ns;
}

uint64_t account_ready_ns(const struct account *account, uint64_t now_ns)
{
        uint64_t own_ns = token_bucket_ready_ns(&account->bucket, &account->all->rule, now_ns);
        uint64_t user_ns = ready_for_user(account, now_ns);

        return own_ns > user_ns ? own_ns : user_ns;
}

/* Requests beyond the user's rate are the debt of this account alone, not of the user's other accounts. */
void account_pay(struct account *account, uint64_t now_ns)
{
        struct token_bucket_rule rule = rule_of_user(account), share = rule_of_share(account);

        token_bucket_take(&account->bucket, &account->all->rule, now_ns);
        if (token_bucket_has_one(&account->user->bucket, &rule, now_ns))
                token_bucket_take(&account->user->bucket, &rule, now_ns);
        else
                token_bucket_take(&account->share, &share, now_ns);
}
