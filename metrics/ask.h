/* SPDX-License-Identifier: Apache-2.0 */
/* Asks a daemon for what metrics are made of. Any thread; blocks until the daemon has answered, or has been silent for
 * too long. */
#pragma once

#include "client/connection/link.h"
#include "metrics/metrics.h"

/* The pools and their figures, and who is connected; tenants' rows if with_tenants. Takes what is of the same moment
 * only as far as the daemon answers one question after the other. The caller deinits ret_figures, whose exporter is its
 * own concern. GPUMEM_E_* or -errno as link_call; -EPROTO for rows that cannot be. */
int ask_figures(struct link *link, bool with_tenants, struct metrics_figures *ret_figures);

/* The same of a daemon that is connected to for this alone: also says which run of it that was.
 * `answer_ms` as in struct link_hello. */
int ask_daemon(const char *socket_path, const char *program, uint32_t answer_ms, bool with_tenants,
               struct metrics_figures *ret_figures, uint64_t *ret_incarnation);
