/* SPDX-License-Identifier: Apache-2.0 */
/* SIGTERM and SIGINT: the daemon shuts down, at once or when clients have given back their memory
 * (daemon/policy/drain.h). It logs the clients that still hold some. On the loop. */
#pragma once

#include "daemon/server/core/server_state.h"

/* Installs the signal handlers and takes the options about shutdown. Calls on_over once, when nothing is
 * waited for any more. */
struct server_options;
int shutdown_open(struct server *server, const struct server_options *options,
                  void (*on_over)(struct server *server));

/* Closes the handles; the server stops. */
void shutdown_close(struct server *server);
