/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics for STATS_REPLY and for every list: the policy's own, and the counters on the clients' boards.
 * On the loop. */
#pragma once

#include "daemon/server/session/session.h"

/* Adds up the boards of all clients (board_walk.h). Then calls `answer`, which may call list_stats_make. */
void list_stats_begin(struct session *session, const struct frame *request,
                      void (*answer)(struct session *session, const struct frame *request));

/* Makes a file with a row of statistics for each pool. Idle leases are as policy_see_idle last saw them. */
int list_stats_make(struct session *session, int *ret_fd);
