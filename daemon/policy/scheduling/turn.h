/* SPDX-License-Identifier: Apache-2.0 */
/* One walk through a pool's queue, as admission.c needs it. "Before" a request are those that the walk has met already.
 * The walk may rest between two requests, and at one for which many blocks go back: what it has found out then holds, but
 * for the bytes, which are counted again. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/policy/scheduling/backfill.h"
#include "daemon/policy/scheduling/deadlock.h"
#include "daemon/policy/scheduling/revoke_idle.h"
#include "daemon/policy/state/types.h"

struct turn {
        struct pool *pool;
        uint64_t now_ns;
        uint64_t number;
        uint64_t n_cachings;   /* the pool's, when the walk began */
        uint64_t n_owed_bytes; /* above the pool's limit; if not 0, no bytes are sure */
        uint64_t n_sure_bytes; /* room and incoming bytes, less those meant for requests before */
        struct scan_budget budget; /* of scans for idle leases, for this request */
        unsigned n_scans;          /* for the requests after it */
        bool goes_on;              /* with this request, which the last part has met, too */
        bool rests; /* this request goes on being met in the next part: blocks go back for it, */
        uint64_t n_trimmed_bytes; /* so many have gone until then for its room in the cache, */
        uint64_t n_evicted_bytes; /* and so many since the driver had no memory for it */
        struct backfill backfill; /* requests before that may wait for ever */
        struct deadlock_look look;
        bool has_unsure;      /* a request before waits that nothing is sure to serve, */
        uint64_t deadline_ns; /* with the earliest deadline of these */
};
