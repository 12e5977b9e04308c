/* SPDX-License-Identifier: Apache-2.0 */
/* The counters that a client reports of itself on its board, made fit to be shown and added up. On the loop. */
#pragma once

#include "daemon/server/session/session.h"

struct board_stats {
        uint64_t requested, requested_peak; /* requested <= allocated <= what it is charged */
        uint64_t allocated, allocated_peak; /* peaks: from that up to the pool's capacity */
        uint64_t hits, misses;              /* any number: for board_stats_add */
};

/* All zero for a client that is not READY: its board has no writer any more. */
struct board_stats board_stats_read(const struct session *session, uint32_t pool);

/* Adds up to INT64_MAX, the largest number that JSON readers take: a client that reports too much spoils a sum,
 * but does not wrap it. */
void board_stats_add(uint64_t *sum, uint64_t n);
