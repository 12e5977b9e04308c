/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics for STATS_REPLY and for every list: the policy's own, and the counters on the clients' boards. All of them
 * are made in parts (request_walk.h). On the loop. */
#pragma once

#include "daemon/server/lists/rows.h"
#include "daemon/server/session/request_walk.h"

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
        struct stats_look look; /* which is not numbered */
        void *more;             /* of the handler: freed in the end */
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

/* The last part: sends the rows and the statistics, or an error if an allocation has failed. */
bool listing_reply(struct walk *walk);

/* Handler of dispatch.c. All who ask share one look at all blocks and boards, of which each step of theirs does a part.
 * An answer comes from a look that began after the question, and is exact: what one part finds is. While others wait
 * for their steps, the last complete look will do if it began within 0.2 s. */
void list_stats_take(struct session *session, const struct frame *frame);

/* Forgets the looks. */
void list_stats_close(struct server *server);
