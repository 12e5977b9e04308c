/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics for STATS_REPLY and for every list: the policy's own, and what clients report on their boards. On the
 * loop. */
#pragma once

#include "daemon/server/session/session.h"

/* A file with a row of figures for each pool; of idle leases as policy_see_idle saw them. The session pays for it. */
int list_stats_make(struct session *session, int *ret_fd);
