/* SPDX-License-Identifier: Apache-2.0 */
/* Executes the policy's actions, and tells it what the workers have done. On the loop. */
#pragma once

#include "daemon/server/core/server_state.h"

/* From now on the policy is served once in a loop iteration, before the loop waits. */
int execute_open(struct server *server);

/* The server's execute. Marks the server dirty: the policy is served at the end of this loop iteration. */
void execute_now(struct server *server);

/* Takes back what the workers have done. */
void execute_take_done(struct server *server);

/* The same of creates that are no longer held (device_watch.h). In each loop iteration, and when the server stops. */
void execute_take_answered(struct server *server);
