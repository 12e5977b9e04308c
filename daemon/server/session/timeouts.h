/* SPDX-License-Identifier: Apache-2.0 */
/* What peers must do in time: say HELLO, and read what waits for them. Notes the clients that linger for long.
 * On the loop. */
#pragma once

#include "daemon/server/core/server_state.h"

/* After this the connection of a peer that has not said HELLO ends, or of one that reads nothing of what is
 * queued for it. */
#define SESSION_TIMEOUT_MS 5000

/* A session is to be watched from now on: it has just connected, does not read, or lingers. */
void timeouts_watch(struct server *server);
