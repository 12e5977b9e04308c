/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over blocks, kept for each pool, and for each tenant in it. A block counts in one of leased, cached
 * and lingering; the others are parts of these. A pool's lingering bytes may include some of no block. */
#pragma once

#include <stdint.h>

struct totals {
        uint64_t leased;    /* in a lease, or being created for one */
        uint64_t cached;    /* in no lease, or being created for the cache */
        uint64_t lingering; /* being released, but not back at the driver */

        uint64_t registered; /* leased, and never idle: see POLICY_REGISTERED */

        uint64_t evictable; /* cached and mapped by no client: a release brings it back */
        uint64_t
                mapped_cached; /* cached, but only the clients that map it can bring it back, when asked */
        uint64_t kept_cached;      /* the same, and they will not */
        uint64_t mapped_lingering; /* the same, after the release */
        uint64_t timed_out;        /* of these, for so long that no request counts on them */
        uint64_t
                returning; /* lingering, and expected back soon: not timed out, not kept mapped, and the
                             * driver takes it */
        uint64_t incoming; /* certain to come: released and unmapped, or being created for
                                    * the cache */

        uint64_t n_blocks;
        uint64_t n_open;    /* with a file open in the daemon, now or later */
        uint64_t n_closing; /* of these, being released */
};

/* Cached blocks, as evict_cached tells them apart. */
enum evict_kind { EVICT_UNMAPPED, EVICT_MAPPED, EVICT_KEPT, EVICT_N_KINDS };

static inline uint64_t totals_cached_of(const struct totals *totals, enum evict_kind kind)
{
        const uint64_t n_bytes[EVICT_N_KINDS] = {
                [EVICT_UNMAPPED] = totals->evictable,
                [EVICT_MAPPED] = totals->mapped_cached,
                [EVICT_KEPT] = totals->kept_cached,
        };

        return n_bytes[kind];
}

static inline uint64_t totals_reserved(const struct totals *totals)
{
        return totals->leased + totals->cached + totals->lingering;
}
