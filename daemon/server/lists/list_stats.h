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
        uint64_t largest_free; /* block that is cached, or idle */
};

/* A list that is being made. It is the first member of what its handler needs for it. */
struct listing {
        struct walk walk;
        struct row_buffer rows;
        enum message_kind reply_kind;
        struct board_total *totals; /* by pool */
        void *more;                 /* of the handler: freed in the end */
        uint64_t n_changes;         /* policy_n_changes, at the beginning */
        uint64_t began_ns;
};

/* `take_listing` is from calloc, or NULL if that failed. */
void listing_begin(struct session *session, const struct frame *request,
                   struct listing *take_listing, bool (*const *parts)(struct walk *walk));

static inline struct listing *listing_of(struct walk *walk)
{
        return CONTAINER_OF(walk, struct listing, walk);
}

/* To be called with each block, by those that do not use listing_see_idle. */
void listing_note_unused(struct listing *listing, const struct block_listing *block);

/* Parts of walks: which leases are idle, and the largest unused block; sums over the boards; the rows go into a file. */
bool listing_see_idle(struct walk *walk);
bool listing_add_boards(struct walk *walk);
bool listing_write_rows(struct walk *walk);

/* Makes a file with a row of statistics for each pool, after the first two of them. */
int list_stats_make(const struct listing *listing, int *ret_fd);

/* The last part: sends the rows and the statistics, or an error if an allocation has failed. */
bool listing_reply(struct walk *walk);

/* Handler of dispatch.c. It answers from the last look at all blocks and boards if that is young, took more than one
 * step, and others wait for theirs. */
void list_stats_take(struct session *session, const struct frame *frame);

/* Forgets that look. */
void list_stats_close(struct server *server);
