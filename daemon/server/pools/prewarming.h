/* SPDX-License-Identifier: Apache-2.0 */
/* Makes pools' memory before any client asks (daemon/policy/prewarm.h), a block of each pool at a time, so that
 * requests are served meanwhile. Gives back what is cached for too long. On the loop.
 *
 * A pool that reserves less than its warm_bytes when the daemon starts, or when the setting changes, has the rest
 * made. That ends early where a request waits for memory, and where the driver fails: that is logged, and the
 * daemon serves all the same. */
#pragma once

#include "daemon/server/core/server_state.h"

struct server_options;
int prewarming_open(struct server *server, const struct server_options *options);

/* The server runs: begins, and tells once that all is ready, at once if there is nothing to make; never
 * when it is told to end before. */
void prewarming_begin(struct server *server);

/* Other settings: what is missing by these is made. */
void prewarming_apply_settings(struct server *server, const struct settings *settings);

/* Such a block has been made, or not: `failure` says why. */
void prewarming_continue(struct server *server, uint32_t pool, uint64_t n_bytes,
                         const char *failure);

/* The pool's driver does not answer any more, or has lost its device. */
void prewarming_stop(struct server *server, uint32_t pool, const char *why);

/* More may be cached than is kept. */
void prewarming_watch(struct server *server);
