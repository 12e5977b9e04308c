/* SPDX-License-Identifier: Apache-2.0 */
/* The lanes of users whose sockets take the kernel long (daemon/fairness/slow_users.h): a thread for each serves those sockets
 * instead of the loop, so others do not wait for it. A lane may take one more while it has fewer than all may take still. On the
 * loop. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "daemon/fairness/slow_users.h"

struct fd_closer;
struct lane;

struct lanes {
        struct slow_users users;
        struct lane *each[SLOW_USERS_MAX]; /* by the user's place; NULL: not needed yet */
        struct fd_closer *closer;
        atomic_uint n_links;
        unsigned n_links_max;
        struct {
                uint64_t owner, step, n_ns;
        } calls; /* of one owner in one step */
};

/* -ENOMEM. */
int lanes_new(unsigned n_links_max, struct lanes **ret_lanes);

/* closer: as of lane_new. */
void lanes_set_closer(struct lanes *lanes, struct fd_closer *closer);

/* NULL is legal; returns NULL. */
struct lanes *lanes_free(struct lanes *lanes);

/* Adds up the calls for an owner's sockets in a step. Returns the sum, if it is long; else 0. */
uint64_t lanes_add_up(struct lanes *lanes, uint64_t owner, uint64_t step, uint64_t n_ns);

/* Calls for sockets of the owner took so much of the thread's own time. */
void lanes_note(struct lanes *lanes, uint64_t owner, uint64_t n_ns, uint64_t now_ns);

/* Whether the owner is slow. */
bool lanes_are_for(struct lanes *lanes, uint64_t owner, uint64_t now_ns);

/* As lane_take and lane_close, by the lane of an owner that is or was slow. -EMFILE: it may have no more sockets. */
int lanes_take(struct lanes *lanes, uint64_t owner, int client_fd, int *ret_fd);
int lanes_close(struct lanes *lanes, uint64_t owner, int take_fd);

/* No connection should be accepted now. Any thread. */
bool lanes_are_full(const struct lanes *lanes);
