/* SPDX-License-Identifier: Apache-2.0 */
/* Idle blocks that move to the place of a request, where they are one run, instead of being returned while new ones are
 * leased: heap_set_take_moves. What is free in pieces of the right sum so becomes memory of the right length, for the
 * driver's calls that map and unmap it, and without a message.
 *
 * Only what could be returned as well is moved: empty device blocks of streams' heaps and of the idle list, all whose
 * work is over. So blocks of captures, shared or registered memory and pledges stay, and so does all memory that is
 * pinned, or mapped by CUDA IPC handles. */
#pragma once

#include "client/blocks/lease.h"

/* One request spends no more of the driver's time on it. */
#define MOVES_US 2000

struct moves {
        unsigned n, n_moved;
        struct leased *from[HEAP_SET_MOVES]; /* those from n_moved on have not moved */
        struct leased *to[HEAP_SET_MOVES];
};

/* Takes blocks for gaps that new blocks would fill, `n_most` at most, if more would be held than the budget allows
 * otherwise. The caller has the lock. */
void moves_plan(struct pool *pool, struct stream_heap *heap, enum heap_set_reach reach,
                unsigned n_most, struct new_blocks *new_blocks, struct moves *moves);

/* Moves them, without the lock. -EAGAIN: the driver failed, or took too long, and some are not there. */
int moves_make(struct pool *pool, struct moves *moves);

/* Gives up the addresses of those that have not moved; without the lock. moves_make does that, too. */
void moves_cancel(struct pool *pool, struct moves *moves);

/* Adds what has moved to the heap, and what has not, where it is; NULL: there is no heap. What no heap can have is for
 * leased_free_all. The caller has the lock. */
void moves_install(struct pool *pool, struct stream_heap *heap, struct moves *moves,
                   struct leased_list *list);
