/* SPDX-License-Identifier: Apache-2.0 */
/* The idle list: blocks of a pool that its heaps do not need and no work uses, and whose leases are idle. The process
 * still maps them and has them back by one compare-and-swap of their lease words; until then the daemon may revoke
 * them. The lines between the states are proto/board.h's.
 *
 * A pledged block (heap_set_pledge) is there as well, for all heaps to have; but its lease stays busy, so that nobody
 * else has it.
 *
 * The idle list is a heap without allocations, so that blocks that touch are one hole to whoever looks for room. Pure,
 * but for the words, which are memory. Threads: the caller holds the pool's lock; the heap's own lock is taken here. */
#pragma once

#include "client/heap/heap.h"

struct idle_list {
        struct heap heap;
        struct heap_block *revoked; /* taken off the idle list, still mapped; linked by `next` */
};

/* Blocks stand in that arena. Not to be moved afterwards. */
void idle_list_init(struct idle_list *idle_list, const struct arena *arena, enum heap_runs runs);
void idle_list_deinit(struct idle_list *idle_list);

/* Not one whose lease nobody can mark: the connection that it came by is over, or it never had a word. */
static inline bool idle_list_may_have(const struct heap_block *block)
{
        return block->is_pledged || block->word != NULL;
}

/* An empty block of a heap, whose lock the caller has, goes to the idle list and its lease is idle. 1: the lease cannot
 * be marked, and has lost its word; the block stays. -ENOMEM changes nothing. */
int idle_list_put(struct idle_list *idle_list, struct heap_block *block);

/* Takes a block from the idle list, its lease busy again. 1: it has been revoked, or has lost its word, and is among
 * `revoked` from now on. -ENOMEM changes nothing. */
int idle_list_take(struct idle_list *idle_list, struct heap_block *block);

/* The same of one on the list, whose lock the caller has, and which stays there: its lease is busy now. False: it has been
 * revoked. And back. */
bool idle_list_pledge(struct heap_block *block);
void idle_list_end_pledge(struct heap_block *block);

/* Takes those off the idle list that have been revoked, and those that have lost their words. */
void idle_list_sweep(struct idle_list *idle_list);

/* One of the revoked, which the caller unmaps; NULL: there is none. */
struct heap_block *idle_list_next_revoked(struct idle_list *idle_list);
