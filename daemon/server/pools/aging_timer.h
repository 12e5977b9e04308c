/* SPDX-License-Identifier: Apache-2.0 */
/* Gives memory back that no process has used for a pool's return_after_seconds (daemon/policy/aging.h). On the loop.
 *
 * A timer passes over all blocks several times within that time. A pass is cut into parts, between which requests are
 * served. A pass sees the end of a block's use late, and another one sees late that its time is over. So the policy's
 * time is two intervals shorter: the memory is back when the configured time is over. */
#pragma once

#include "daemon/server/core/server_state.h"

int aging_timer_open(struct server *server);

/* The pools' stocks have changed. */
void aging_timer_apply(struct server *server);

/* There may be something to look at: starts the timer. */
void aging_timer_watch(struct server *server);
