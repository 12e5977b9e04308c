/* SPDX-License-Identifier: Apache-2.0 */
/* Applies settings while the daemon runs (SIGHUP), and calls server_options.on_alive at its interval.
 * server_apply_settings and server_do_aside are in server.h. On the loop. */
#pragma once

#include "daemon/server/core/server_state.h"

/* Handles SIGHUP. */
struct server_options;
int apply_settings_open_hangup(struct server *server, const struct server_options *options);

/* Starts the timer for on_alive. */
int apply_settings_open_alive(struct server *server, const struct server_options *options);

/* Logs the pool rules that match no pool of this machine. */
void apply_settings_check_rules(const struct server *server, const struct settings *settings);
