/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of one process: how a process that reconnects to the same daemon takes over its earlier session. On the
 * loop. */
#pragma once

#include "daemon/server/session/session.h"

/* The loop may see the end of a connection after the HELLO of the next one. If `other` is a session of the same
 * process, and its peer has hung up: reads one of its frames. Returns whether there is more to read. */
bool process_sessions_catch_up(const struct session *session, struct session *other);

/* The process has reconnected after its connection was cut, and holds that many bytes. The charge of the
 * session that it left ends with process_sessions_take_over: at the first HELD, or at once if nothing is
 * held. HELLO alone does not end it, since the client may have given up waiting for the reply. The process's other
 * sessions have caught up. */
void process_sessions_reconnect(struct session *session, uint64_t n_held_bytes);

/* Also legal for a session that has not reconnected. */
void process_sessions_take_over(struct session *session);
