/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a daemon and its devices are well, judged by what they say. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/listing.h"
#include "proto/proto.h"

#define FINDING_TEXT_MAX 192

enum finding_level {
        FINDING_NOTE, /* worth a look; it works */
        FINDING_ILL,  /* what is asked for may fail */
};

struct finding {
        enum finding_level level;
        uint32_t pool;    /* LISTING_NOBODY: it is of the daemon itself, and ill */
        const char *what; /* a word for programs */
        char text[FINDING_TEXT_MAX];
};

struct findings {
        unsigned n;
        struct finding *findings;
        int is_short_of_memory; /* some could not be kept */
};

void findings_deinit(struct findings *findings);

/* A pool, by its figures. */
void health_check_pool(const struct pool_row *pool, const struct stats_row *stats,
                       struct findings *findings);

/* All blocks together: those that linger for so long and longer. Those that a process may still map are worth a
 * look; what the driver does not take back is ill. */
void health_check_blocks(const struct block_row *blocks, uint32_t n_blocks, uint64_t lingering_ms,
                         struct findings *findings);

/* What has happened: a pool whose memory was found not cleared is one for as long as its daemon lives;
 * a daemon that is ending leases nothing more. */
void health_check_events(const struct event_row *events, uint32_t n_events,
                         struct findings *findings);

/* Pools with a finding that is as bad, or worse. */
unsigned findings_count_pools(const struct findings *findings, enum finding_level least);

/* The daemon itself is ill. */
bool findings_has_daemon(const struct findings *findings);
