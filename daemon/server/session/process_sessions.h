/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of one process: how many it may have, and how one takes over what an earlier one left, when a process
 * reconnects to the same run of the daemon. On the loop. */
#pragma once

#include "daemon/server/session/session.h"

/* GPUMEM_E_TOO_MANY when the process has as many as one may have, also such as it has left. */
int process_sessions_may_join(const struct server *server, const struct peer *peer);

/* The process has reconnected after its connection was cut, and holds so much. The charge of the session that it
 * left ends with process_sessions_take_over: at the first HELD, or at once if nothing is held. A HELLO alone does
 * not end it: its sender may have given up waiting. */
void process_sessions_reconnect(struct session *session, uint64_t n_held_bytes);

/* Legal also for a session that has not reconnected. */
void process_sessions_take_over(struct session *session);
