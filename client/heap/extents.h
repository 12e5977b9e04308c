/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of addresses, cut into extents that are taken or free, and an index of the free ones by size. Pure: addresses
 * are numbers of units and are never followed. A free extent is also called a hole.
 *
 * A run is contiguous. Adjacent holes of a run are merged, and no extent reaches from one run into another. Each end
 * of a run is an edge: an extent of length 0 that is never a hole. So every other extent has a neighbour on both
 * sides, and a merge needs no check for the end.
 *
 * An extent takes 32 bytes, two a cache line, and is named by its index; index 0 means none. A million allocations
 * need a million extents, and the table that finds them. The array moves when it grows. Only extents_reserve makes it
 * grow, so no other function can fail. Threads: none of its own; the owner of the `struct extents` locks.
 *
 * Choice of a hole: the first one of the size's own class if it has exactly the size. Else, of the first holes of
 * that class and of the next EXTENTS_LOOK, the one at the lowest address. Where few of these classes have holes, the
 * next EXTENTS_FEW classes that have any are searched instead. An exact fit leaves no rest and is cheapest. The
 * lowest address gathers long-lived allocations there, so that blocks at high addresses become empty and can be
 * returned. From EXTENTS_LARGE on, holes of that class and of the next EXTENTS_NEAR come before all others: a hole
 * that is larger may have whole empty blocks, which can go back or move, or serve a larger request, and which this
 * one would keep. bench/RESULTS.md compares that with best fit.
 *
 * Cost: sizes of 16 units and more fall into 16 classes a doubling, and each class is a list. A new hole goes first
 * in its list if it starts lower than the first one, or else second. A separate array holds the start of each class's
 * first hole, and is compared four at a time. So a search touches two holes: the first of its own class, which may be
 * too small, and the one that it finds. Only if it finds none does it walk its own class. All else is constant,
 * except extents_check. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define EXTENTS_N_CLASSES 464
#define EXTENTS_WORDS     8
#define EXTENTS_LOOK      64 /* four doublings; as many as a word of `words` has bits */
#define EXTENTS_FEW       8
#define EXTENTS_NEAR      4    /* a quarter of a doubling */
#define EXTENTS_LARGE     4096 /* units; of a heap's 512 bytes these are 2 MiB, its smallest block */
#define EXTENTS_N_STARTS \
        (EXTENTS_N_CLASSES + EXTENTS_LOOK) /* a search may look beyond the last class */

enum extent_state { EXTENT_UNUSED, EXTENT_TAKEN, EXTENT_FREE, EXTENT_EDGE };

struct extent {
        uint32_t start;
        uint32_t n_units;
        uint32_t before;   /* the one that ends where this one starts; 0 at a run's first edge */
        uint32_t after;    /* the one that starts where this one ends; 0 at a run's last edge */
        uint32_t next;     /* in the list of its class, or of unused ones */
        uint32_t previous; /* in the list of its class; 0: the first one */
        uint32_t n_slack;  /* taken: bytes of the last unit beyond the request */
        uint32_t state;
};

struct extents {
        struct extent *extents;
        uint32_t n_extents; /* room for */
        uint32_t n_touched;
        uint32_t first_unused;
        uint32_t n_unused;
        uint64_t n_free;
        uint64_t n_units; /* of all holes */
        uint64_t n_splits;
        uint64_t n_merges;
        uint64_t words[EXTENTS_WORDS + 1]; /* bit c: class c has holes; the last one is 0 */
        uint32_t heads[EXTENTS_N_CLASSES];
        int32_t starts
                [EXTENTS_N_STARTS]; /* of the heads, as free_index_order gives them; INT32_MAX: no head */
};

/* A zeroed struct is empty and owns nothing, too. */
void extents_init(struct extents *extents);
void extents_deinit(struct extents *extents);

/* Makes room for n extents, so that the calls that make them need no memory. -ENOMEM. */
COLD int extents_grow(struct extents *extents, uint32_t n);

static ALWAYS_INLINE int extents_reserve(struct extents *extents, uint32_t n)
{
        bool is_room = extents->n_unused + (extents->n_extents - extents->n_touched) >= n;

        return __builtin_expect(is_room, true) ? 0 : extents_grow(extents, n);
}

static inline struct extent *extents_at(const struct extents *extents, uint32_t index)
{
        return &extents->extents[index];
}

/* Adds units as a hole. They extend the run that ends at the edge `before`, the run that begins at the edge `after`,
 * or both, which become one run. If both are 0, they are a run of their own. Returns the edges that the run has then.
 * Makes up to three extents. */
struct run_edges {
        uint32_t before; /* 0: the run begins further down */
        uint32_t after;  /* 0: it ends further up */
};
struct run_edges extents_add(struct extents *extents, uint32_t start, uint32_t n_units,
                             struct run_edges touching);

/* Removes part of a hole. Returns the ends of runs that this makes: 0 where a run ended already. Makes up to three
 * extents. */
struct run_edges extents_remove(struct extents *extents, uint32_t free_extent, uint32_t start,
                                uint32_t n_units);

/* A hole of at least n_units; 0 if there is none. */
uint32_t extents_find_free(const struct extents *extents, uint32_t n_units);

/* The same, but of the size's own class it tries the first hole only. For callers that can do without a hole and ask
 * often. */
uint32_t extents_find_first_free(const struct extents *extents, uint32_t n_units);

/* The units of the largest hole; 0: there is none. Of a class with more holes than this it is the largest of so many, by
 * a sixteenth too small at most. */
#define EXTENTS_LARGEST_LOOKS 512
uint32_t extents_largest_free(const struct extents *extents);

/* Takes the first n_units of a hole. Returns the taken extent; if the hole is used up, that is the hole's own. Makes
 * one extent. */
uint32_t extents_take(struct extents *extents, uint32_t free_extent, uint32_t n_units);

/* Frees a taken extent, and merges it with adjacent holes. Returns the hole. */
uint32_t extents_give(struct extents *extents, uint32_t taken);

/* Iterates over the holes of n_units and more, in no order: 0 gives the first one; returns 0 after the last. */
uint32_t extents_next_large_free(const struct extents *extents, uint32_t n_units,
                                 uint32_t free_extent);

/* What the runs hold. Their owner adds it up for extents_check; begins zeroed. */
struct extents_tally {
        uint64_t n_free;
        uint64_t n_free_units;
        uint64_t n_extents;
        uint64_t n_run_units;
        uint64_t sum_of_free; /* the sum of their indices, to compare sets of holes */
};

/* Asserts that the extents from the edge on tile a run, and that no two holes touch; adds them to the tally. */
void extents_tally_run(const struct extents *extents, uint32_t edge, struct extents_tally *tally);

/* Asserts that the index is consistent, that it holds the tally's holes, once each, and no others, and that no extent
 * is lost. */
void extents_check(const struct extents *extents, const struct extents_tally *tally);
