/* SPDX-License-Identifier: Apache-2.0 */
/* How many fds and queued bytes all users may have together, and the share of each
 * (daemon/fairness/users.h). On the loop. */
#pragma once

#include "daemon/server/core/server_state.h"

/* Raises the limit of open files to the hard limit, and makes the kernel's table of them as large at once. Before there
 * are threads. Errors of the kernel's; the table may then grow later. */
int fd_limits_raise(void);

/* Sets the totals for all sessions. -EMFILE: the daemon may have too few files open to serve any. */
int fd_limits_init(struct server *server);

/* Sets the shares of each tenant and user. */
void fd_limits_set_each(struct server *server, const struct user_rule *rule);

/* How many of one user's connections may wait for its turn. */
unsigned fd_limits_max_arrivals(void);

/* Whether there are few fds left, where this was the lowest one that was free. Any thread. */
bool fd_limits_are_few(int fd);

/* How many sockets and files lanes may have (daemon/server/transport/lanes.h). */
unsigned fd_limits_max_lane_links(void);

/* The number of blocks for which there are fds. */
uint64_t fd_limits_max_blocks(void);
