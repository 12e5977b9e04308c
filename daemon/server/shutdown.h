/* SIGTERM and SIGINT: the daemon's end, at once or when what is held has come back (daemon/policy/drain.h), and
 * who still holds what then. On the loop. */
#pragma once

#include "daemon/server/core/server_state.h"

/* Takes the signals, and what of the options is about the end. Calls on_over, once, when
 * nothing is waited for any more. */
struct server_options;
int shutdown_open(struct server *server, const struct server_options *options,
                  void (*on_over)(struct server *server));

/* The server stops: there is nothing more to wait for. */
void shutdown_close(struct server *server);
