/* SPDX-License-Identifier: Apache-2.0 */
/* Users whose sockets take the kernel long. At each send and receive it looks at all that waits for the client's socket, in
 * the process that sends, and a client may have thousands of waits.
 *
 * What one call takes is charged like all other time while it is short. Calls longer than a step may count are added up. A part
 * of all time is forgiven, since interrupts and the hosts of virtual machines make any call long now and then: on a machine
 * with 5 % of its time stolen, a hundred calls of 40 s, most below 1 ms, one 9 ms, and up to 18 ms of one user's. A user with
 * SLOW_USER_CALLS such calls, and more of them than SLOW_USER_NS, is slow for SLOW_USER_REST_NS. Its thread makes that longer
 * with each call of more than SLOW_USER_NS that it meets. All this outlives the user's connections: one that comes again is still slow. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/fairness/next_payer.h"

#define SLOW_USERS_MAX  64
#define SLOW_USERS_ROWS 64
#define SLOW_USERS_EACH 8

#define SLOW_USER_NS      UINT64_C(10000000)
#define SLOW_USER_CALLS   3
#define SLOW_USER_PART    500
#define SLOW_USER_REST_NS (UINT64_C(600) * 1000000000)

struct slow_users {
        unsigned n; /* places that have been taken */
        struct slow_user {
                uint64_t owner;   /* as of its payer */
                uint64_t slow_ns; /* when it last was */
        } each[SLOW_USERS_MAX];
        struct slow_sum {
                uint64_t owner, n_ns, since_ns;
                unsigned n;                       /* calls that are not forgiven */
        } sums[SLOW_USERS_ROWS][SLOW_USERS_EACH]; /* a row has those whose numbers end alike */
};

/* Whether a call took so long that it is to be noted. */
static inline bool slow_users_suspect(uint64_t n_ns)
{
        return n_ns > PAYER_STEP_MAX_NS;
}

/* A call took so long. Returns whether the owner is slow from now on. One that has been slow the longest ago loses its place
 * if there is no other. */
bool slow_users_note(struct slow_users *users, uint64_t owner, uint64_t n_ns, uint64_t now_ns);

/* The owner's place among SLOW_USERS_MAX; -1: it has not been slow for long. */
int slow_users_find(const struct slow_users *users, uint64_t owner);

/* The owner at that place was slow once more. */
void slow_users_renew(struct slow_users *users, int place, uint64_t slow_ns);

/* Whether it is slow still. */
bool slow_users_is_slow(const struct slow_users *users, int place, uint64_t now_ns);
