/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a daemon and its devices are healthy, by what they say of themselves. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/listing.h"
#include "proto/messages.h"

#define FINDING_TEXT_MAX 192

enum finding_level {
        FINDING_NOTE,      /* worth a look; everything works */
        FINDING_UNHEALTHY, /* requests may fail */
};

struct finding {
        enum finding_level level;
        uint32_t pool;    /* LISTING_NOBODY: the daemon itself, which is unhealthy then */
        const char *what; /* a word for programs */
        char text[FINDING_TEXT_MAX];
};

struct findings {
        unsigned n;
        struct finding *findings;
        int is_short_of_memory; /* some findings are missing */
};

void findings_deinit(struct findings *findings);

/* Checks a pool by its statistics. */
void health_check_pool(const struct pool_row *pool, const struct stats_row *stats,
                       struct findings *findings);

/* Checks all blocks: which of them have lingered for so long, or longer. A block that a process may still map is a
 * note; one that the driver does not take back makes the pool unhealthy. */
void health_check_blocks(const struct block_row *blocks, uint32_t n_blocks, uint64_t lingering_ms,
                         struct findings *findings);

/* Checks the events: a pool whose memory was once found not cleared stays unhealthy until the daemon's end; a daemon
 * that is shutting down leases nothing more. */
void health_check_events(const struct event_row *events, uint32_t n_events,
                         struct findings *findings);

/* How many pools have a finding of this level, or of a worse one. */
unsigned findings_count_pools(const struct findings *findings, enum finding_level least);

/* Whether there is a finding about the daemon itself. */
bool findings_has_daemon(const struct findings *findings);
