/* SPDX-License-Identifier: Apache-2.0 */
/* SIGTERM and SIGINT: the daemon shuts down, at once or when clients have given back what they hold
 * (daemon/policy/drain.h), and logs the clients that still hold something. On the loop. */
#pragma once

#include "daemon/server/core/server_state.h"

/* Takes the signals, and what of the options is about shutdown. Calls on_over, once, when there is
 * nothing more to wait for. */
struct server_options;
int shutdown_open(struct server *server, const struct server_options *options,
                  void (*on_over)(struct server *server));

/* The server stops. */
void shutdown_close(struct server *server);
