/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics for STATS_REPLY and for every list: the policy's own, and the counters on the clients' boards. All of them
 * are made in parts (walk.h). On the loop. */
#pragma once

#include "daemon/server/lists/rows.h"
#include "daemon/server/session/walk.h"

/* What the clients that hold or held memory in a pool report. */
struct board_total {
        uint64_t n_clients; /* with a charge in the pool */
        uint64_t allocated, requested, hits, misses;
};

/* A list that is being made. It is the first member of what its handler needs for it. */
struct listing {
        struct walk walk;
        struct row_buffer rows;
        struct board_total *totals; /* by pool */
        void *more;                 /* of the handler: freed in the end */
        uint64_t n_changes;         /* policy_n_changes, at the beginning */
};

/* `take_listing` is from calloc, or NULL if that failed. */
void listing_begin(struct session *session, const struct frame *request,
                   struct listing *take_listing, bool (*const *parts)(struct walk *walk));

static inline struct listing *listing_of(struct walk *walk)
{
        return CONTAINER_OF(walk, struct listing, walk);
}

/* Parts of walks: which leases are idle; sums over the boards. */
bool listing_see_idle(struct walk *walk);
bool listing_add_boards(struct walk *walk);

/* Makes a file with a row of statistics for each pool, after these two parts. */
int list_stats_make(const struct listing *listing, int *ret_fd);

/* Sends the rows and the statistics, or an error if an allocation has failed. */
void listing_reply(struct listing *listing, enum message_kind kind);

/* Handler of dispatch.c. */
void list_stats_take(struct session *session, const struct frame *frame);
