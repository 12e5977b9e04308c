/* SPDX-License-Identifier: Apache-2.0 */
/* The heaps of one pool together: what they hold, what they may hold, and which empty block is to go, to another heap
 * or back to the daemon. Pure: driver calls, leases and time are the caller's.
 *
 * A block is empty when one hole covers it, and idle when also no GPU work uses it: a hole carries
 * the epoch of its latest free, and heap_new_epoch with n_done_epochs says which are over. Only idle
 * blocks move.
 * Threads: one at a time here, which takes each heap's lock as it looks at it; heaps are allocated
 * from and freed to meanwhile. */
#pragma once

#include <sys/queue.h>

#include "client/reserve/budget.h"
#include "client/reserve/idle_list.h"
#include "client/reserve/placement.h"

struct set_heap {
        struct heap heap;
        TAILQ_ENTRY(set_heap) in_set;
};

TAILQ_HEAD(set_heaps, set_heap);

struct heap_set {
        struct arena *arena;
        struct set_heaps heaps;
        uint32_t n_heaps;
        struct idle_list idle_list; /* once there is an arena */
        uint64_t
                n_reserved_bytes; /* of blocks in heaps, on their way there, and on the idle list */
        uint64_t n_reserved_peak_bytes;
        uint64_t n_pledged_bytes; /* beside the budget, be they in use or not */
        struct budget budget;
        uint64_t next_look_us;   /* of those who free; see heap_set_begin_look */
        uint64_t n_looked_bytes; /* allocated when they looked */
};

void heap_set_init(struct heap_set *set);

/* Addresses for a pool of that size: so many that heaps far apart each have room to grow to all of it. 0: there are
 * none for it. */
uint64_t heap_set_arena_bytes(uint64_t n_capacity_bytes);

/* From now on there are addresses. Runs: of the idle list. */
void heap_set_open(struct heap_set *set, struct arena *arena, enum heap_runs runs);

/* In the arena of the set, which has been opened. */
void heap_set_add(struct heap_set *set, struct set_heap *heap, enum heap_runs runs);
/* Forgets what is on the idle list, which the caller has seen to. */
void heap_set_close(struct heap_set *set);

/* A heap without blocks, or with ones that the caller has seen to. */
void heap_set_remove(struct heap_set *set, struct set_heap *heap);

/* What all heaps have allocated. */
uint64_t heap_set_allocated(struct heap_set *set);

/* Looks at the peak. What is held above the budget then, with n_more_bytes that are wanted. */
uint64_t heap_set_excess(struct heap_set *set, uint64_t n_more_bytes, uint64_t now_us);

/* So much more than the budget that a request waits for work to end, so long, rather than lease more. */
#define HEAP_SET_WAIT_US 20000
bool heap_set_is_hard(const struct heap_set *set, uint64_t n_more_bytes);

/* Takes one idle block out of its heap, or from the idle list; the caller unmaps it and gives it and its addresses
 * back. None that stands between the two addresses. NULL: there is none, or another thread was faster. */
struct heap_block *heap_set_take_idle(struct heap_set *set, uint64_t start, uint64_t end);

/* There is an empty block, idle or not. */
bool heap_set_has_empty(struct heap_set *set);

/* Puts idle blocks on the idle list that were in their heap, and idle, at the last heap_set_settle already: a loop that
 * fills and empties them keeps them, and what came for a request is there when it is served. Says whether there was
 * one. */
bool heap_set_put_idle(struct heap_set *set);

/* What is idle now may be put on the idle list next time. Says whether that is any more than last time. */
bool heap_set_settle(struct heap_set *set);

/* Where no thread looks from time to time, those who free do, if it is time. What is put on the idle list is what two
 * looks find idle: between them there must be time for a loop to use what it needs, however soon it has freed so much
 * that a look is due. Sooner, they look where less than half is left of what was allocated before: it may be the end of
 * much, after which nobody frees, and happens a few times in that time. */
#define HEAP_SET_LOOK_US 3000
bool heap_set_begin_look(struct heap_set *set, uint64_t now_us);

/* Gives the heap blocks off the idle list in which n_bytes fit, with the holes of its own that they touch. False: there
 * are none. */
bool heap_set_reuse_idle(struct heap_set *set, struct set_heap *heap, uint64_t n_bytes);

/* The same, or else idle blocks of other heaps in which n_bytes fit. */
bool heap_set_adopt(struct heap_set *set, struct set_heap *heap, uint64_t n_bytes);

/* Says where to lease what. As placement_plan. */
int heap_set_plan(struct heap_set *set, struct set_heap *heap, uint64_t n_bytes,
                  struct placement *ret_placement);

/* A smaller block than a part of a plan was to be is as good if it need not be made: the rest is asked for when it
 * stands. Not so small that a request takes many of them. */
enum heap_set_parts { HEAP_SET_SMALLER_PARTS, HEAP_SET_WHOLE_PARTS };
uint64_t heap_set_least_bytes(uint64_t n_part_bytes, enum heap_set_parts kind);

/* Above the last part a larger block may have room. */
uint64_t heap_set_most_bytes(const struct heap_set *set, const struct placement *placement,
                             unsigned part);

/* So often is a request planned anew, when others were faster, or parts came smaller. */
#define HEAP_SET_TRIES 32

/* What is asked for at a try: what comes smaller must not keep a request from ending. */
#define HEAP_SET_SMALLER_TRIES 16
static inline enum heap_set_parts heap_set_parts_of_try(unsigned i)
{
        return i < HEAP_SET_SMALLER_TRIES ? HEAP_SET_SMALLER_PARTS : HEAP_SET_WHOLE_PARTS;
}

/* What is needed for a pledge of n_bytes, in one run: that of the idle list which lacks least, and what is to be leased
 * beside it; or a new one only, which nothing idle is held for while it is waited for. */
enum heap_set_pledge { HEAP_SET_PLEDGE_IDLE, HEAP_SET_PLEDGE_NEW };
int heap_set_plan_pledge(struct heap_set *set, uint64_t n_bytes, enum heap_set_pledge kind,
                         struct placement *ret_placement);

/* Pledges the blocks of the idle list between the two addresses: their leases are busy, and they serve heaps as
 * before. 1: the daemon was faster with one, and nothing has changed. */
int heap_set_pledge(struct heap_set *set, uint64_t start, uint64_t end);

/* Puts a new block on the idle list, pledged. -ENOMEM. */
int heap_set_add_pledged(struct heap_set *set, struct heap_block *block);

/* No block is pledged any more: what nobody uses is idle as any other. */
void heap_set_end_pledge(struct heap_set *set);

/* Blocks are on their way to a heap; are about to go back. */
void heap_set_count(struct heap_set *set, uint64_t n_bytes);
void heap_set_forget(struct heap_set *set, uint64_t n_bytes);
