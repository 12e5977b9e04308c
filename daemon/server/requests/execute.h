/* SPDX-License-Identifier: Apache-2.0 */
/* Executes the policy's actions, and reports the workers' results to it. On the loop. */
#pragma once

#include "daemon/server/core/server_state.h"

void execute_open(struct server *server);

/* The server's `execute` function. Marks the server dirty: execute_serve serves the policy's queues. */
void execute_now(struct server *server);

/* Serves the queues of pools about which the policy was told something. Called at the end of each step of the
 * scheduler. */
void execute_serve(struct server *server);

/* What is done once for several steps: deadlines and others of the policy's times are set, sessions that have ended are
 * freed. Called after each turn of steps. */
void execute_after_turn(struct server *server);

/* Takes the creates that are no longer held (device_watch.h), so many at most. Returns how many more it might have taken.
 * Called by execute_serve, and when the server stops. */
unsigned execute_take_answered(struct server *server, unsigned n_most);
