/* SPDX-License-Identifier: Apache-2.0 */
/* The heaps of one pool together: what they hold, what they may hold, which empty block moves to another heap, and which may go
 * back to the daemon: client/pool/empty_blocks.h decides when. Pure: the caller makes driver calls and leases, and passes the time.
 *
 * A block is empty when one hole covers it. It is idle when also no GPU work uses it: each block notes the epoch of
 * its latest free, and n_done_epochs tells which epochs are over. Only idle blocks move.
 *
 * Threads: one at a time may call this; it takes each heap's lock while it reads the heap. Other threads allocate
 * from the heaps and free to them meanwhile. */
#pragma once

#include <sys/queue.h>

#include "client/reserve/budget.h"
#include "client/reserve/idle_list.h"
#include "client/reserve/idle_patience.h"
#include "client/reserve/new_blocks.h"

struct set_heap {
        struct heap heap;
        TAILQ_ENTRY(set_heap) in_set;
};

TAILQ_HEAD(set_heaps, set_heap);

struct heap_set {
        struct arena *arena;
        struct set_heaps heaps;
        uint32_t n_heaps;
        struct idle_list idle_list; /* valid once there is an arena */
        struct idle_patience patience;
        uint64_t
                n_reserved_bytes; /* of blocks in heaps, on their way to one, or on the idle list */
        uint64_t n_reserved_peak_bytes;
        uint64_t n_pledged_bytes; /* not in the budget, whether used or not */
        struct budget budget;
        uint32_t n_leases_max;   /* so many the process may have; see heap_set_bound */
        uint64_t next_look_us;   /* of threads that free; see heap_set_begin_look */
        uint64_t n_looked_bytes; /* allocated at their last look */
        uint64_t n_looks;        /* of plans, at blocks of other heaps */
        uint64_t short_until_us; /* see heap_set_is_short */
};

void heap_set_init(struct heap_set *set);

/* Has what is empty a size that it may not exceed? */
static inline bool heap_set_is_bounded(const struct heap_set *set)
{
        return set->budget.n_empty_max != UINT64_MAX;
}

/* How many addresses a pool of that size needs, so that heaps far apart can each grow to all of it. 0: there are not
 * that many. */
uint64_t heap_set_arena_bytes(uint64_t n_capacity_bytes);

/* From now on there are addresses. `runs` is for the idle list. */
void heap_set_open(struct heap_set *set, struct arena *arena, enum heap_runs runs);

/* Adds a heap in the set's arena; the set has been opened. */
void heap_set_add(struct heap_set *set, struct set_heap *heap, enum heap_runs runs);
/* Ends the idle list; the caller has taken care of its blocks. */
void heap_set_close(struct heap_set *set);

/* Removes a heap; the caller has taken care of its blocks. */
void heap_set_remove(struct heap_set *set, struct set_heap *heap);

/* The bytes allocated in all heaps. */
uint64_t heap_set_allocated(struct heap_set *set);

/* What all heaps and the idle list hold. `n_free_bytes`: of their blocks, and not allocated. */
struct heap_set_sums {
        uint64_t n_live; /* allocations */
        uint64_t n_free_bytes;
        uint64_t n_free_extents; /* holes; places of slabs are none */
        uint64_t n_largest_free_bytes;
        uint64_t n_idle_bytes; /* of the idle list; free, too */
        uint64_t n_idle_blocks;
        uint64_t n_splits;
        uint64_t n_merges;
};

/* Linear in the heaps, and in the holes of the largest class of each; see extents_largest_free. */
void heap_set_sum(struct heap_set *set, struct heap_set_sums *ret_sums);

/* Updates the peak, where that was not done a moment ago: it is linear in the heaps. */
void heap_set_see(struct heap_set *set, uint64_t now_us);

/* Updates the peak. Returns how much is held above the budget then, with n_more_bytes that are wanted. */
uint64_t heap_set_excess(struct heap_set *set, uint64_t n_more_bytes, uint64_t now_us);

/* Is more empty than the cache size? Never without one. */
bool heap_set_exceeds_cache(struct heap_set *set);

/* With a cache size: of n_allocated_bytes in all heaps so many may be freed before it is exceeded. */
uint64_t heap_set_spare(const struct heap_set *set, uint64_t n_allocated_bytes);

/* Is so little held that a request of n_more_bytes had better lease its own block than take another heap's, whose stream
 * would lack it? */
bool heap_set_may_grow(const struct heap_set *set, uint64_t n_more_bytes, uint64_t now_us);

/* A lease was refused: for HEAP_SET_SHORT_US there are no more blocks. */
#define HEAP_SET_SHORT_US UINT64_C(10000000)
void heap_set_note_refused(struct heap_set *set, uint64_t now_us);
bool heap_set_is_short(const struct heap_set *set, uint64_t now_us);

/* Would n_more_bytes exceed the budget so far that a request rather waits for work to end, up to HEAP_SET_WAIT_US? */
#define HEAP_SET_WAIT_US 20000
bool heap_set_is_hard(const struct heap_set *set, uint64_t n_more_bytes);

/* Takes one idle block out of its heap or off the idle list; the caller unmaps it, and returns it and its addresses.
 * Leaves out blocks between the two addresses. NULL: there is none, or other threads were faster. */
struct heap_block *heap_set_take_idle(struct heap_set *set, uint64_t start, uint64_t end);

/* The same of the idle list's blocks that came there at that time or earlier; one that was pledged when it was new is
 * as old as can be. NULL: there is none. */
struct heap_block *heap_set_take_older(struct heap_set *set, uint64_t at_us);

/* Is there an empty block in the heap, idle or not? */
bool heap_set_is_empty_in(struct set_heap *heap);

/* Is there one in any, or on the idle list? */
bool heap_set_has_empty(struct heap_set *set);

/* Puts idle blocks on the idle list if they were in their heap, and idle, at the last heap_set_settle already. So a
 * loop keeps the blocks that it empties and fills again. A new block is still in its heap when its request is served.
 * Returns whether there was one. */
bool heap_set_put_idle(struct heap_set *set, uint64_t now_us);

/* No block that there is serves a request of n_bytes in its place. */
void heap_set_note_miss(struct heap_set *set, uint64_t n_bytes, uint64_t now_us);

/* Blocks that are idle now may be put on the idle list next time. Returns whether these are more than last time. */
bool heap_set_settle(struct heap_set *set);

/* Without a service thread, threads that free look at the pool, if it is time. Two looks must find a block idle
 * before it is put on the idle list. So there must be HEAP_SET_LOOK_US between them for a loop to use its blocks
 * again, however soon its frees make a look due. They look earlier if less than half is left of what was allocated at
 * the last look: the program may free nothing after that. This happens only a few times within HEAP_SET_LOOK_US. */
#define HEAP_SET_LOOK_US 3000
bool heap_set_begin_look(struct heap_set *set, uint64_t now_us);

/* Moves blocks from the idle list to the heap, in which n_bytes fit, together with the heap's holes that they touch.
 * False: there are none. */
bool heap_set_reuse_idle(struct heap_set *set, struct set_heap *heap, uint64_t n_bytes);

/* Moves all blocks of the idle list to the heap that the daemon has not revoked, but pledged ones: it may not revoke them
 * any more. */
void heap_set_recall_idle(struct heap_set *set, struct set_heap *heap);

/* The same of all blocks at once, if the set has one heap, and its program is in a loop (idle_patience.h): after a pause its
 * allocations then find the places that they had before. Returns whether n_bytes fit there now. */
bool heap_set_recall_loop(struct heap_set *set, struct set_heap *heap, uint64_t n_bytes);

/* The same as heap_set_reuse_idle, or else moves idle blocks of other heaps in which n_bytes fit. */
bool heap_set_adopt(struct heap_set *set, struct set_heap *heap, uint64_t n_bytes);

/* The process may have so many leases, as it is told; more if heap_set_bound was not called. From a part of that on,
 * leases are larger than requests need, so that they grow with the logarithm of what they hold: one small allocation
 * left in each block does not use them up. */
void heap_set_bound(struct heap_set *set, uint32_t n_leases_max);

/* The process was refused another lease, since it has too many: from now on they are larger. */
void heap_set_join(struct heap_set *set);

/* Whose idle blocks a heap may have besides those of the idle list: no other heap's, or each one's. */
enum heap_set_reach { HEAP_SET_ALONE, HEAP_SET_ALL };

/* Plans where a request finds room, with idle blocks of others that stand there, and which blocks to lease at which
 * addresses for the rest. As new_blocks_plan. */
int heap_set_plan(struct heap_set *set, struct set_heap *heap, uint64_t n_bytes,
                  enum heap_set_reach reach, struct new_blocks *ret_new_blocks);

/* Hands the blocks of others that stand in a plan's place to the heap. 1: another thread or the daemon was faster. */
int heap_set_take_planned(struct heap_set *set, struct set_heap *heap,
                          const struct new_blocks *new_blocks);

/* Blocks that move to gaps of a plan's place, instead of being returned while others are leased: they are taken out of
 * their heaps, or off the idle list, and still count as reserved. The caller maps each one at its new address, and adds it
 * to the heap. They fill the place as far as the request needs it. What gaps are left are the plan's parts then, or none
 * if the request needs no more; `n_most` blocks at most, up to HEAP_SET_MOVES. Returns how many
 * there are. A move counts as a return in the budget, since it takes the driver's time, too. */
#define HEAP_SET_MOVES 16
struct heap_set_move {
        struct heap_block *block;
        uint64_t to; /* an address */
};
unsigned heap_set_take_moves(struct heap_set *set, const struct set_heap *heap,
                             enum heap_set_reach reach, unsigned n_most,
                             struct new_blocks *new_blocks, struct heap_set_move *ret_moves);

/* For a part of a plan, a smaller block that exists is as good as one that must be made first: the rest is requested
 * afterwards. It must not be so small that a request takes many of them. */
enum heap_set_parts { HEAP_SET_SMALLER_PARTS, HEAP_SET_WHOLE_PARTS };
uint64_t heap_set_least_bytes(uint64_t n_part_bytes, enum heap_set_parts kind);

/* The largest block that may be put at a part: above the last part there may be room for a larger one. */
uint64_t heap_set_most_bytes(const struct heap_set *set, const struct new_blocks *new_blocks,
                             unsigned part);

/* How often a request is planned again, because other threads were faster or parts came smaller. */
#define HEAP_SET_TRIES 32

/* From this try on only whole parts are requested, so that smaller ones cannot keep a request from ending. */
#define HEAP_SET_SMALLER_TRIES 16
static inline enum heap_set_parts heap_set_parts_of_try(unsigned i)
{
        return i < HEAP_SET_SMALLER_TRIES ? HEAP_SET_SMALLER_PARTS : HEAP_SET_WHOLE_PARTS;
}

/* Plans a pledge of n_bytes in one run. HEAP_SET_PLEDGE_IDLE: the run of the idle list that lacks least, and what
 * must be leased next to it. HEAP_SET_PLEDGE_NEW: a new run only, so that nothing idle is held while the lease is
 * waited for. */
enum heap_set_pledge { HEAP_SET_PLEDGE_IDLE, HEAP_SET_PLEDGE_NEW };
int heap_set_plan_pledge(struct heap_set *set, uint64_t n_bytes, enum heap_set_pledge kind,
                         struct new_blocks *ret_new_blocks);

/* Pledges the blocks of the idle list between the two addresses: their leases are busy, and they serve heaps as
 * before. 1: the daemon has revoked one, and nothing has changed. */
int heap_set_pledge(struct heap_set *set, uint64_t start, uint64_t end);

/* Adds a new block to the idle list, pledged. -ENOMEM. */
int heap_set_add_pledged(struct heap_set *set, struct heap_block *block);

/* Ends all pledges: blocks that no heap uses are idle as any others. */
void heap_set_end_pledge(struct heap_set *set);

/* heap_set_count: blocks are on their way to a heap. heap_set_forget: blocks are about to be returned. */
void heap_set_count(struct heap_set *set, uint64_t n_bytes);
void heap_set_forget(struct heap_set *set, uint64_t n_bytes);
