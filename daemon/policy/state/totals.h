/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over blocks, kept twice: for a pool, and for what one tenant has in it. A block is in one of
 * leased, cached, lingering; the rest are parts of these. What lingers in a pool may be no block's, too. */
#pragma once

#include <stdint.h>

struct totals {
        uint64_t leased;    /* in a lease, or being made for one */
        uint64_t cached;    /* in no lease, or being made for nobody any more */
        uint64_t lingering; /* being released, but not back at the driver */

        uint64_t evictable;        /* cached and mapped by nobody: comes back when it is released */
        uint64_t mapped_cached;    /* cached, but only its mappers can bring it back, when asked */
        uint64_t kept_cached;      /* the same, and they will not */
        uint64_t mapped_lingering; /* the same, after it was released */
        uint64_t timed_out;        /* of these, for so long that nobody counts on them any more */
        uint64_t incoming; /* comes for certain: released and mapped by nobody, or being made
                                    * for the cache */

        uint64_t n_blocks;
        uint64_t n_open;    /* of these, for which the daemon has a file open, or will */
        uint64_t n_closing; /* of these, which are being released */
};

static inline uint64_t totals_reserved(const struct totals *totals)
{
        return totals->leased + totals->cached + totals->lingering;
}
