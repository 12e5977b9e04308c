/* SPDX-License-Identifier: Apache-2.0 */
/* Asks a daemon for the numbers behind the metrics. Any thread; blocks until the daemon has answered, or
 * for the connection's timeout. */
#pragma once

#include "client/connection/link.h"
#include "metrics/metrics.h"

/* Reads the pools with their statistics, the figures of the loop and the connected clients, and with with_tenants the tenants' rows.
 * The replies are made one after the other, so they are not of one moment. The caller deinits ret_figures
 * and sets its `exporter` itself. GPUMEM_E_* or -errno as link_call; -EPROTO for invalid rows. */
int ask_figures(struct link *link, bool with_tenants, struct metrics_figures *ret_figures);

/* The same over a connection made for this call alone. Also returns the daemon's incarnation. `answer_ms`
 * as in struct link_hello. */
int ask_daemon(const char *socket_path, const char *program, uint32_t answer_ms, bool with_tenants,
               struct metrics_figures *ret_figures, uint64_t *ret_incarnation);
