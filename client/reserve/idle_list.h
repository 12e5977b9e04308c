/* SPDX-License-Identifier: Apache-2.0 */
/* The idle list: blocks of a pool that its heaps do not need and no work uses, and whose leases are idle. The process
 * still maps them, and reclaims one by one compare-and-swap of its lease word; until then the daemon may revoke it.
 * proto/board.h has the transitions between the states.
 *
 * A pledged block (heap_set_pledge) is also there, for all heaps; but its lease stays busy, so that no other client
 * gets it.
 *
 * The idle list is a heap without allocations, so that adjacent blocks are one hole in a search for room. Pure,
 * except for the words, which are shared memory. Threads: the caller holds the pool's lock; the heap's own lock is
 * taken here. */
#pragma once

#include "client/heap/heap.h"

struct idle_list {
        struct heap heap;
        struct heap_block *revoked; /* taken off the idle list, still mapped; linked by `next` */
};

/* Its blocks stand in that arena. The list must not be moved afterwards. */
void idle_list_init(struct idle_list *idle_list, const struct arena *arena, enum heap_runs runs);
void idle_list_deinit(struct idle_list *idle_list);

/* May the block be on the idle list? Not if its lease cannot be marked: its connection is over, or it never had a
 * word. */
static inline bool idle_list_may_have(const struct heap_block *block)
{
        return block->is_pledged || block->word != NULL;
}

/* Moves an empty block from a heap to the idle list, and marks its lease idle. The caller has the heap's lock. 1: the
 * lease cannot be marked, and the block has lost its word; it stays in its heap. -ENOMEM changes nothing. */
int idle_list_put(struct idle_list *idle_list, struct heap_block *block);

/* Takes a block off the idle list, and marks its lease busy. 1: it was revoked or has lost its word, and is on the
 * list `revoked` now. -ENOMEM changes nothing. */
int idle_list_take(struct idle_list *idle_list, struct heap_block *block);

/* idle_list_pledge marks the lease of a block busy that stays on the list; false: it was revoked.
 * idle_list_end_pledge marks it idle again. The caller has the list's lock. */
bool idle_list_pledge(struct heap_block *block);
void idle_list_end_pledge(struct heap_block *block);

/* Takes all blocks off the idle list that were revoked or have lost their words. */
void idle_list_sweep(struct idle_list *idle_list);

/* Takes one revoked block, which the caller unmaps; NULL: there is none. */
struct heap_block *idle_list_next_revoked(struct idle_list *idle_list);
