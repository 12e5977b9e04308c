/* SPDX-License-Identifier: Apache-2.0 */
/* Deadlines of peers: they must send HELLO, and read what is queued for them, in time. Also notes clients
 * that linger for long. On the loop. */
#pragma once

#include "daemon/server/core/server_state.h"

struct session;

/* After this time without HELLO, or without reading queued frames, a connection ends. */
#define SESSION_TIMEOUT_MS 5000

/* Watches a session from now on: it has just connected, does not read, or lingers. */
void timeouts_watch(struct server *server);
