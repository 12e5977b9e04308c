/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's server: one socket, one loop, the pools behind it.
 *
 * server_run owns the calling thread until SIGTERM or SIGINT. Everything but the pools' workers runs on that thread. */
#pragma once

#include <stdbool.h>

#include "daemon/server/core/server_options.h"

/* Makes the pools and the socket. Failures are logged with what to do about them. */
int server_new(const struct server_options *options, struct server **ret_server);

/* Brings other settings into force: what is held beyond a new limit stays. The limits are taken out of `settings`. */
int server_apply_settings(struct server *server, struct settings *settings);

/* Serves until a signal ends it; 0 after an orderly end. */
int server_run(struct server *server);

/* Has `work` called on another thread, and `done` on the loop after that, also when the server ends meanwhile: then
 * before server_free returns. One at a time; -EBUSY. */
int server_do_aside(struct server *server, void (*work)(void *argument),
                    void (*done)(struct server *server, void *argument), void *argument);

/* It ends: nothing is to be changed any more. */
bool server_is_stopping(const struct server *server);

/* NULL is legal; returns NULL. Where the driver does not answer (abandoned_workers_any) some of it stays, and nothing
 * but _exit() may follow. */
struct server *server_free(struct server *server);
