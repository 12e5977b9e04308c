/* SPDX-License-Identifier: Apache-2.0 */
/* The counters that a client reports on its board, limited to possible values so that they can be shown and
 * added up. On the loop. */
#pragma once

#include "daemon/server/session/session.h"

struct board_stats {
        uint64_t requested, requested_peak; /* requested <= allocated <= what it is charged */
        uint64_t allocated, allocated_peak; /* peaks: from that up to the pool's capacity */
        uint64_t hits, misses;              /* unchecked; use board_stats_add */
};

/* All zero for a client that is not READY, since no process writes to its board; for one that has never asked for
 * memory; and from then on for one that has overwritten its board's header. */
struct board_stats board_stats_read(struct session *session, uint32_t pool);

/* What that will read comes into the CPU's cache meanwhile. */
void board_stats_prefetch(const struct session *session);

/* Adds up to INT64_MAX, the largest number that JSON readers take. A client that reports too much makes a
 * sum useless, but does not wrap it. */
void board_stats_add(uint64_t *sum, uint64_t n);
