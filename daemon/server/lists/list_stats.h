/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics for STATS_REPLY and for every list: the policy's own, and the counters on the clients' boards.
 * On the loop. */
#pragma once

#include "daemon/server/session/session.h"

/* Makes a file with a row of statistics for each pool. Idle leases are as policy_see_idle last saw them.
 * The cost counts against the session's rate limit. */
int list_stats_make(struct session *session, int *ret_fd);
