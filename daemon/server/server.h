/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's server: one socket, one loop, the pools behind it.
 *
 * server_run owns the calling thread until SIGTERM or SIGINT. Everything but the pools' workers runs on that thread. */
#pragma once

#include <stdbool.h>

#include "daemon/server/core/server_options.h"

/* Makes the pools and the socket. Failures are logged with what to do about them. */
int server_new(const struct server_options *options, struct server **ret_server);

/* Applies new settings. Memory above a new limit stays leased. Takes the limits out of `settings`. */
int server_apply_settings(struct server *server, struct settings *settings);

/* Serves until a signal ends it. Returns 0 after an orderly end. */
int server_run(struct server *server);

/* Calls `work` on another thread and then `done` on the loop. If the server ends meanwhile, `done` is
 * called before server_free returns. -EBUSY: an earlier call is not done. */
int server_do_aside(struct server *server, void (*work)(void *argument),
                    void (*done)(struct server *server, void *argument), void *argument);

/* The server is ending: settings must not be changed any more. */
bool server_is_stopping(const struct server *server);

/* NULL is legal; returns NULL. Where the driver does not answer, or a process delays the end (abandoned_threads_any),
 * some memory is not freed. The process must then end with _exit(). */
struct server *server_free(struct server *server);
