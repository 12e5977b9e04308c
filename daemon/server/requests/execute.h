/* SPDX-License-Identifier: Apache-2.0 */
/* Executes the policy's actions, and reports the workers' results to it. On the loop. */
#pragma once

#include "daemon/server/core/server_state.h"

/* Installs the handles that serve the policy once in a loop iteration, before the loop blocks. */
int execute_open(struct server *server);

/* The server's `execute` function. Marks the server dirty: the policy is served at the end of this loop
 * iteration. */
void execute_now(struct server *server);

/* Takes finished jobs from the workers. */
void execute_take_done(struct server *server);

/* Takes the creates that are no longer held (device_watch.h). Called in each loop iteration, and when the
 * server stops. */
void execute_take_answered(struct server *server);
