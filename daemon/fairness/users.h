/* SPDX-License-Identifier: Apache-2.0 */
/* Users, their accounts and processes: who takes part in what all users share, and who pays for the loop's time
 * (next_payer.h).
 *
 * An account is a container, or a user's processes outside of all. It counts under the user that owns the container:
 * root in it may have any number of uids. Root runs the containers of many people, so each account of root's has a share
 * of its own in what all users share. A user can make any number of containers, so it has at most ACCOUNTS_A_USER
 * accounts of its own; later containers share one. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/log.h"
#include "base/table.h"
#include "daemon/fairness/allowance.h"
#include "daemon/fairness/next_payer.h"

#define ACCOUNTS_A_USER   256
#define ACCOUNT_REALM_MAX 252 /* of a realm's name, with the terminating 0 */

/* Realms that no container has. */
#define ACCOUNT_UNREADABLE "unreadable" /* a prefix: the container cannot be read */
#define ACCOUNT_MORE       "more"       /* shared by containers beyond the limit */

/* All tenants of a user together may use so many times the share of one. */
#define USER_TIMES 4

struct reply_owner; /* see daemon/server/session/reply_files.h */

struct user {
        struct payer payer;
        struct accounts *all;
        uint32_t uid;
        unsigned n_accounts;
        struct account *accounts; /* by realm */
        struct allowance allowance;
        unsigned n_arrivals;         /* connections that wait to be let in */
        struct reply_owner *replies; /* that it reads; NULL: none */
        uint64_t n_list_bytes;       /* of lists that are made for it */
        UT_hash_handle hh;
};

struct account {
        struct payer payer;
        struct accounts *all;
        struct user *user;
        struct reply_owner *replies; /* of a container that root runs, */
        uint64_t n_list_bytes;       /* and the bytes of its lists */
        char realm[ACCOUNT_REALM_MAX];
        unsigned n_arrivals; /* its part of the user's */
        unsigned n_members;  /* of its processes */
        struct process *processes;
        struct allowance own;
        struct allowance *
                allowance; /* of connections, and of what its processes take: its own, or the user's */
        UT_hash_handle hh;
};

/* Before Linux 6.9 a process's number is its pid, which may be reused by another user. */
struct process_key {
        uint64_t number; /* 0: unknown, and shared by all such processes */
        uint64_t uid;
};

struct process_member {
        LIST_ENTRY(process_member) link;
};

struct process {
        struct payer payer;
        struct account *account;
        struct allowance allowance; /* a part of the account's */
        struct process_key key;
        unsigned n_members;
        LIST_HEAD(, process_member) members; /* its connections */
        UT_hash_handle hh;
};

/* Limits of lines in the log. They outlive a user's connections: a new connection begins no new limit. An owner has one of
 * those in its row; if it has none there, it gets the one that was begun the longest ago. */
#define LOG_LIMIT_ROWS  64
#define LOG_LIMITS_EACH 8
struct owner_log_limit {
        uint64_t owner;
        struct log_limit limit;
};

struct accounts {
        struct payer *everyone;
        struct owner_log_limit log_limits[LOG_LIMIT_ROWS][LOG_LIMITS_EACH];
        struct user *users; /* by uid */
        struct allowances allowances;
        bool one_a_user; /* containers make no difference */
};

/* -ENOMEM. */
int user_ref(struct accounts *all, uint32_t uid, struct user **ret_user);
struct user *user_unref(struct user *user);

/* The account of the user in that realm, or its shared one if it has too many; -ENOMEM. */
int account_ref(struct accounts *all, uint32_t uid, const char *realm,
                struct account **ret_account);
struct account *account_unref(struct account *account);

/* Limits the lines in the log that the account's user causes, or the container that root runs. Valid until the next call. */
struct log_limit *account_log_limit(struct account *account);

/* What has the replies of the account's user, or of the container that root runs. */
struct reply_owner **account_replies(struct account *account);
uint64_t *account_list_bytes(struct account *account);

/* Whether one more of its connections may wait to be let in, where n_max of its user may: each container leaves as many
 * places as it has. So do processes of the host, which are one account. */
bool account_may_arrive(const struct account *account, unsigned n_max);

/* One does, or no longer does. */
void account_arrive(struct account *account);
void account_end_arrival(struct account *account);

/* The account is the one for containers beyond the limit. */
bool account_is_of_more(const struct account *account);

/* Connections of its user's processes in realms that cannot be read. */
unsigned account_n_unreadable(const struct account *account);

/* The member joins the process with that key; -ENOMEM. */
int process_join(struct account *account, const struct process_key *key,
                 struct process_member *member, struct process **ret_process);
struct process *process_leave(struct process *process, struct process_member *member);

/* No account is referred to, but by processes that are gone and owe. */
bool accounts_are_unused(const struct accounts *all);
