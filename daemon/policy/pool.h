/* One pool: its limit, its blocks, who waits for them. Owns neither: blocks belong to tenants,
 * requests to clients; they take themselves off these lists. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "daemon/policy/line.h"
#include "daemon/policy/policy.h"
#include "daemon/policy/totals.h"

struct block;

struct pool {
        struct policy *policy;
        uint32_t id;
        struct policy_pool settings;
        bool closing; /* what nobody leases is let go */
        enum standing_state standing;
        uint64_t keep_bytes; /* these and the next: see warm.h */
        uint64_t return_after_ns;
        struct block *return_next; /* cached, where the next look goes on; NULL: at the first */
        bool cache_grew;           /* more is cached, or less is kept mapped: warm.c reads it */
        bool returned_all;         /* a whole pass has seen what there was before that */

        struct totals totals;
        uint64_t stranded; /* part of what lingers: no block's, see policy_set_stranded */
        uint64_t charged;
        uint64_t declared; /* part of charged */
        uint64_t reserved_peak;
        uint64_t late;     /* lingering, of clients that are late with it; see overdue.h */
        uint64_t n_leases; /* busy; several of a shared block */

        LIST_HEAD(pool_blocks, block) blocks;
        TAILQ_HEAD(pool_blocks_by_age, block) cached; /* of all tenants; in the order of caching */
        struct pool_blocks_by_age leased;             /* of all tenants; as a holding's */
        struct pool_blocks_by_age expected; /* see overdue.h; the one let go first is first */
        uint64_t n_awaited;                 /* lingering blocks that a free_all waits for */
        uint64_t seen_idle_bytes;           /* of the leased ones, see block.h */
        bool was_seen;                      /* by policy_see_idle_of */
        uint64_t seen_ns;
        uint64_t n_searches; /* for idle leases of others, ever */
        uint64_t n_cachings; /* ever: dates a block's place among the cached */

        struct line line; /* who waits */
        uint64_t n_waiting;
        bool unserved;    /* something has happened since the queue was walked */
        uint64_t n_backs; /* times that bytes came back to the driver, or may have */

        uint64_t n_grants_from_cache;
        uint64_t n_creates;
        uint64_t n_releases;
        uint64_t n_refusals;
        uint64_t n_revocations;
        uint64_t n_known_grants;
        uint64_t n_notices;
};

int pool_new(struct policy *policy, uint32_t id, const struct policy_pool *settings,
             struct pool **ret_pool);
struct pool *pool_free(struct pool *pool);

/* What may be made at once. */
uint64_t pool_room(const struct pool *pool);

/* What the pool would have above its limit, which was lowered, once all that comes for certain has
 * come: nothing is made before others have brought that back. */
uint64_t pool_debt(const struct pool *pool);

/* The same without what is let go: while there is some, nothing is kept in the cache. */
uint64_t pool_excess(const struct pool *pool);
