/* The heaps of one pool together: what they hold, what they may hold, and which empty block is to
 * go, to another heap or back to the daemon. Pure: driver calls, leases and time are the caller's.
 *
 * A block is empty when one hole covers it, and idle when also no GPU work uses it: a hole carries
 * the epoch of its latest free, and heap_new_epoch with n_done_epochs says which are over. Only idle
 * blocks move.
 * Threads: one at a time here, which takes each heap's lock as it looks at it; heaps are allocated
 * from and freed to meanwhile. */
#pragma once

#include <sys/queue.h>

#include "client/reserve/budget.h"
#include "client/reserve/placement.h"
#include "client/reserve/idle_list.h"

struct space_heap {
        struct heap heap;
        TAILQ_ENTRY(space_heap) in_space;
};

TAILQ_HEAD(space_heaps, space_heap);

struct space {
        struct arena *arena;
        struct space_heaps heaps;
        uint32_t n_heaps;
        struct idle_list idle_list; /* once there is an arena */
        uint64_t
                n_reserved_bytes; /* of blocks in heaps, on their way there, and on the idle list */
        uint64_t n_reserved_peak_bytes;
        struct budget budget;
        uint64_t next_look_us;   /* of those who free; see space_begin_look */
        uint64_t n_looked_bytes; /* allocated when they looked */
};

void space_init(struct space *space);

/* Addresses for a pool of that size: so many that heaps far apart each have room to grow to all of it.
 * 0: there are none for it. */
uint64_t space_arena_bytes(uint64_t n_capacity_bytes);

/* From now on there are addresses. Runs: of the idle list. */
void space_open(struct space *space, struct arena *arena, enum heap_runs runs);

/* In the arena of the space, which has been opened. */
void space_add(struct space *space, struct space_heap *heap, enum heap_runs runs);
/* Forgets what is on the idle list, which the caller has seen to. */
void space_close(struct space *space);

/* A heap without blocks, or with ones that the caller has seen to. */
void space_remove(struct space *space, struct space_heap *heap);

/* What all heaps have allocated. */
uint64_t space_allocated(struct space *space);

/* Looks at the peak. What is held above the budget then, with n_more_bytes that are wanted. */
uint64_t space_excess(struct space *space, uint64_t n_more_bytes, uint64_t now_us);

/* So much more than the budget that a request waits for work to end, so long, rather than lease more. */
#define SPACE_WAIT_US 20000
bool space_is_hard(const struct space *space, uint64_t n_more_bytes);

/* Takes one idle block out of its heap, or from the idle list; the caller unmaps it and gives it and its
 * addresses back. None that stands between the two addresses. NULL: there is none, or another thread
 * was faster. */
struct heap_block *space_take_idle(struct space *space, uint64_t start, uint64_t end);

/* There is an empty block, idle or not. */
bool space_has_empty(struct space *space);

/* Puts idle blocks on the idle list that were in their heap, and idle, at the last space_settle already: a
 * loop that fills and empties them keeps them, and what came for a request is there when it is served.
 * Says whether there was one. */
bool space_put_idle(struct space *space);

/* What is idle now may be put on the idle list next time. Says whether that is any more than last time. */
bool space_settle(struct space *space);

/* Where no thread looks from time to time, those who free do, if it is time. What is put on the idle list is what two
 * looks find idle: between them there must be time for a loop to use what it needs, however soon it has
 * freed so much that a look is due. Sooner, they look where less than half is left of what was allocated
 * before: it may be the end of much, after which nobody frees, and happens a few times in that time. */
#define SPACE_LOOK_US 3000
bool space_begin_look(struct space *space, uint64_t now_us);

/* Gives the heap blocks off the idle list in which n_bytes fit, with the holes of its own that they touch.
 * False: there are none. */
bool space_reuse_idle(struct space *space, struct space_heap *heap, uint64_t n_bytes);

/* The same, or else idle blocks of other heaps in which n_bytes fit. */
bool space_adopt(struct space *space, struct space_heap *heap, uint64_t n_bytes);

/* Says where to lease what. As placement_plan. */
int space_plan(struct space *space, struct space_heap *heap, uint64_t n_bytes,
               struct placement *ret_placement);

/* A smaller block than a part of a plan was to be is as good if it need not be made: the rest is asked
 * for when it stands. Not so small that a request takes many of them. */
enum space_parts { SPACE_SMALLER_PARTS, SPACE_WHOLE_PARTS };
uint64_t space_least_bytes(uint64_t n_part_bytes, enum space_parts kind);

/* Above the last part a larger block may have room. */
uint64_t space_most_bytes(const struct space *space, const struct placement *placement,
                          unsigned part);

/* So often is a request planned anew, when others were faster, or parts came smaller. */
#define SPACE_TRIES 32

/* What is asked for at a try: what comes smaller must not keep a request from ending. */
#define SPACE_SMALLER_TRIES 16
static inline enum space_parts space_parts_of_try(unsigned i)
{
        return i < SPACE_SMALLER_TRIES ? SPACE_SMALLER_PARTS : SPACE_WHOLE_PARTS;
}

/* Blocks are on their way to a heap; are about to go back. */
void space_count(struct space *space, uint64_t n_bytes);
void space_forget(struct space *space, uint64_t n_bytes);
