/* What the sessions of one user have together: its allowance of what all users share, and its pace.
 *
 * A user lives while a session refers to it; what is sent over a connection is its own until the peer has
 * taken it or hung up. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/table.h"
#include "daemon/policy/allowance.h"
#include "daemon/policy/pace.h"
#include "daemon/server/core.h"

/* A socket and a pidfd. */
#define SESSION_N_FDS 2

struct user {
        struct server *server;
        uint32_t uid;
        unsigned n_refs;
        struct allowance allowance;
        struct pace pace;          /* of its requests */
        struct log_limit refusals; /* what it may cause in the log */
        UT_hash_handle hh;
};

/* The user of this uid; -ENOMEM. */
int user_ref(struct server *server, uint32_t uid, struct user **ret_user);
struct user *user_unref(struct user *user);
