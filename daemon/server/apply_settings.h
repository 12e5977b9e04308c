/* SPDX-License-Identifier: Apache-2.0 */
/* Applies settings while the daemon runs, at a signal; and calls what the server's starter wants called on the
 * loop. server_apply_settings and server_do_aside are in server.h. On the loop. */
#pragma once

#include "daemon/server/core/server_state.h"

/* The signal. */
struct server_options;
int apply_settings_open_hangup(struct server *server, const struct server_options *options);

/* A call at intervals. */
int apply_settings_open_alive(struct server *server, const struct server_options *options);

/* Logs which rules have no effect on this machine. */
void apply_settings_check_rules(const struct server *server, const struct settings *settings);
