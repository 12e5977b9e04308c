/* What the policy orders is executed here, and what the workers have done is told to it. On the loop. */
#pragma once

#include "daemon/server/core/server_state.h"

/* From now on the policy is served once in a loop iteration, before it waits. */
int execute_open(struct server *server);

/* The server's execute, which also marks it dirty: the policy is served in this loop iteration. */
void execute_now(struct server *server);

/* Takes back what the workers have done. */
void execute_take_done(struct server *server);

/* The same of creates that were held (device_watch.h), and are not any more. In each loop iteration, and when the server stops. */
void execute_take_answered(struct server *server);
