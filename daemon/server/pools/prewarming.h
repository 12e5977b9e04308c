/* SPDX-License-Identifier: Apache-2.0 */
/* Creates blocks before a client asks for them (daemon/policy/prewarm.h), one block of each pool at a time,
 * so that requests are served meanwhile. On the loop.
 *
 * A pool that reserves less than its warm_bytes, when the daemon starts or the setting changes, is filled
 * up. This ends early if a request waits for memory or the driver fails. The end is logged, and the daemon
 * serves in any case. */
#pragma once

#include "daemon/server/core/server_state.h"

struct server_options;
void prewarming_open(struct server *server, const struct server_options *options);

/* The server runs: starts prewarming, and calls on_ready once when it is done, at once if there is nothing
 * to create. on_ready is not called if a shutdown comes first. */
void prewarming_begin(struct server *server);

/* Applies other settings: creates blocks that are missing by these. */
void prewarming_apply_settings(struct server *server, const struct settings *settings);

/* A block of prewarming has been created, or not: `failure` says why. */
void prewarming_continue(struct server *server, uint32_t pool, uint64_t n_bytes,
                         const char *failure);

/* The pool's driver does not answer any more, or its device is lost. */
void prewarming_stop(struct server *server, uint32_t pool, const char *why);
