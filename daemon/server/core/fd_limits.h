/* SPDX-License-Identifier: Apache-2.0 */
/* How many fds, and bytes that are queued, all users have together, and what each has of them
 * (daemon/ratelimit/account.h). On the loop. */
#pragma once

#include "daemon/server/core/server_state.h"

/* What all sessions together may have. */
void fd_limits_init(struct server *server);

/* What those of each tenant and user may have. */
void fd_limits_set_each(struct server *server, const struct user_rule *rule);

/* For so many blocks there are fds. */
uint64_t fd_limits_max_blocks(void);
