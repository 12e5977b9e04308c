/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fairness/users.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

static void on_user_end(struct payer *payer)
{
        struct user *user = CONTAINER_OF(payer, struct user, payer);

        assert(allowance_is_unused(&user->allowance) && !user->accounts && !user->replies &&
               !user->n_list_bytes);
        HASH_DEL(user->all->users, user);
        free(user);
}

static int user_new(struct accounts *all, uint32_t uid, struct user **ret_user)
{
        struct user *user = calloc(1, sizeof(*user));

        if (!user)
                return -ENOMEM;
        user->all = all;
        user->uid = uid;
        user->allowance.all = &all->allowances;
        user->allowance.has_tenants = !all->one_a_user;
        HASH_ADD(hh, all->users, uid, sizeof(user->uid), user);
        if (!user->hh.tbl) {
                free(user);
                return -ENOMEM;
        }
        if (payer_init(&user->payer, all->everyone, on_user_end)) {
                HASH_DEL(all->users, user);
                free(user);
                return -ENOMEM;
        }
        user->payer.owner = uid;
        *ret_user = user;
        return 0;
}

int user_ref(struct accounts *all, uint32_t uid, struct user **ret_user)
{
        struct user *user;

        HASH_FIND(hh, all->users, &uid, sizeof(uid), user);
        if (!user)
                return user_new(all, uid, ret_user);
        payer_ref(&user->payer);
        *ret_user = user;
        return 0;
}

struct user *user_unref(struct user *user)
{
        if (user)
                payer_unref(&user->payer);
        return NULL;
}

static void on_account_end(struct payer *payer)
{
        struct account *account = CONTAINER_OF(payer, struct account, payer);

        assert(allowance_is_unused(&account->own) && !account->processes && !account->replies &&
               !account->n_list_bytes);
        HASH_DEL(account->user->accounts, account);
        account->user->n_accounts--;
        free(account);
}

/* Such numbers of owners are of containers that root runs. Others are uids. */
#define OF_CONTAINER (UINT64_C(1) << 63)

static uint64_t hash_of(const char *realm)
{
        uint64_t hash = UINT64_C(14695981039346656037);

        for (; *realm; realm++)
                hash = (hash ^ (unsigned char)*realm) * UINT64_C(1099511628211);
        return hash;
}

static int account_new(struct user *user, const char *realm, struct account **ret_account)
{
        struct account *account = calloc(1, sizeof(*account));

        if (!account)
                return -ENOMEM;
        account->all = user->all;
        account->user = user;
        memcpy(account->realm, realm, strlen(realm));
        account->own.all = &user->all->allowances;
        account->own.parent = user->uid || user->all->one_a_user ? &user->allowance : NULL;
        account->allowance = user->all->one_a_user ? &user->allowance : &account->own;
        HASH_ADD(hh, user->accounts, realm, sizeof(account->realm), account);
        if (!account->hh.tbl) {
                free(account);
                return -ENOMEM;
        }
        if (payer_init(&account->payer, &user->payer, on_account_end)) {
                HASH_DEL(user->accounts, account);
                free(account);
                return -ENOMEM;
        }
        if (!user->uid)
                account->payer.owner = hash_of(realm) | OF_CONTAINER;
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

static int account_get(struct user *user, const char *realm, struct account **ret_account)
{
        struct account *account = find(user, realm);

        if (!account && user->n_accounts >= ACCOUNTS_A_USER) {
                realm = ACCOUNT_MORE;
                account = find(user, realm);
        }
        if (!account)
                return account_new(user, realm, ret_account);
        payer_ref(&account->payer);
        *ret_account = account;
        return 0;
}

int account_ref(struct accounts *all, uint32_t uid, const char *realm, struct account **ret_account)
{
        struct user *user;
        int r;

        assert(strlen(realm) < ACCOUNT_REALM_MAX);
        r = user_ref(all, uid, &user);
        if (r)
                return r;
        r = account_get(user, all->one_a_user ? "" : realm, ret_account);
        (void)user_unref(user);
        return r;
}

struct account *account_unref(struct account *account)
{
        if (account)
                payer_unref(&account->payer);
        return NULL;
}

struct log_limit *account_log_limit(struct account *account)
{
        uint64_t owner = account->payer.owner;
        struct owner_log_limit *row = account->all->log_limits[owner % LOG_LIMIT_ROWS];
        struct owner_log_limit *eldest = row;

        for (unsigned i = 0; i < LOG_LIMITS_EACH; i++) {
                if (row[i].owner == owner)
                        return &row[i].limit;
                if (row[i].limit.since_ns < eldest->limit.since_ns)
                        eldest = &row[i];
        }
        *eldest = (struct owner_log_limit){.owner = owner};
        return &eldest->limit;
}

struct reply_owner **account_replies(struct account *account)
{
        return account->user->uid ? &account->user->replies : &account->replies;
}

uint64_t *account_list_bytes(struct account *account)
{
        return account->user->uid ? &account->user->n_list_bytes : &account->n_list_bytes;
}

bool account_may_arrive(const struct account *account, unsigned n_max)
{
        unsigned n = account->user->n_arrivals;

        return n < n_max && account->n_arrivals < n_max - n;
}

void account_arrive(struct account *account)
{
        account->n_arrivals++;
        account->user->n_arrivals++;
}

void account_end_arrival(struct account *account)
{
        account->n_arrivals--;
        account->user->n_arrivals--;
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
                        n += account->n_members;
        }
        return n;
}

static void on_process_end(struct payer *payer)
{
        struct process *process = CONTAINER_OF(payer, struct process, payer);

        assert(LIST_EMPTY(&process->members) && allowance_is_unused(&process->allowance));
        HASH_DEL(process->account->processes, process);
        free(process);
}

static int process_new(struct account *account, const struct process_key *key,
                       struct process **ret_process)
{
        struct process *process = calloc(1, sizeof(*process));

        if (!process)
                return -ENOMEM;
        process->account = account;
        process->allowance.all = &account->all->allowances;
        process->allowance.parent = account->allowance;
        process->key = *key;
        LIST_INIT(&process->members);
        HASH_ADD(hh, account->processes, key, sizeof(process->key), process);
        if (!process->hh.tbl) {
                free(process);
                return -ENOMEM;
        }
        if (payer_init(&process->payer, &account->payer, on_process_end)) {
                HASH_DEL(account->processes, process);
                free(process);
                return -ENOMEM;
        }
        *ret_process = process;
        return 0;
}

int process_join(struct account *account, const struct process_key *key,
                 struct process_member *member, struct process **ret_process)
{
        struct process *process;
        int r = 0;

        HASH_FIND(hh, account->processes, key, sizeof(*key), process);
        if (process)
                payer_ref(&process->payer);
        else
                r = process_new(account, key, &process);
        if (r)
                return r;
        LIST_INSERT_HEAD(&process->members, member, link);
        process->n_members++;
        account->n_members++;
        *ret_process = process;
        return 0;
}

struct process *process_leave(struct process *process, struct process_member *member)
{
        if (!process)
                return NULL;
        LIST_REMOVE(member, link);
        process->n_members--;
        process->account->n_members--;
        payer_unref(&process->payer);
        return NULL;
}

bool accounts_are_unused(const struct accounts *all)
{
        const struct account *account;
        const struct user *user;

        for (user = all->users; user; user = user->hh.next) {
                for (account = user->accounts; account; account = account->hh.next) {
                        if (account->payer.n_refs > account->payer.n_children)
                                return false;
                }
        }
        return true;
}
