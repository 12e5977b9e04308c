/* What all users have together, and what each has of it (daemon/ratelimit/account.h). On the loop. */
#pragma once

#include "daemon/server/core/server_state.h"

/* What all sessions together may have. */
void user_share_out(struct server *server);

/* What those of each tenant and user may have. */
void user_limit_each(struct server *server, const struct user_rule *rule);

/* For so many blocks there are files. */
uint64_t user_max_blocks(void);
