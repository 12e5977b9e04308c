/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of addresses, cut into extents that are taken or free, and an index of the free ones by size. Pure:
 * addresses are numbers of units and are never followed. A free extent is called a hole, too.
 *
 * A run is what is contiguous; holes of one run that touch are one hole, and nothing reaches from
 * one run into another. Each end of a run is an edge: an extent of no length that is never a hole, so
 * that every other extent has a neighbour on both sides and a merge needs no question.
 *
 * Extents are 32 bytes and are named by their index, two to a cache line: a million of them, and the
 * table that finds them, are what a million allocations cost. Index 0 is none. The array moves when
 * it grows; extents_reserve is the only function that makes it grow, so the only one that can fail.
 * Threads: none of its own; the owner of the `struct extents` locks.
 *
 * Which hole: the first one of its class if it is of exactly the size; or else, of the holes that come
 * first in that class and in the next EXTENTS_LOOK, the one at the lowest address. Where few of those
 * classes have holes, the next EXTENTS_FEW that have any are looked at.
 * Exact ones leave nothing over, and cost least. What lives long gathers at low addresses by the rest, so
 * that high ones become empty and their blocks go back: bench/RESULTS.md
 * has what that is worth, and what best fit is.
 *
 * Cost: sizes of 16 units and more fall into 16 classes a doubling, each a list. A hole is put first if
 * it starts lower than the first one, or else second; where the first of each class starts stands in an
 * array of its own, which is compared four at a time, so that a search touches one hole in its own class,
 * where it may be too small, and the one that it finds; only where there is none does it look at all of its own class. All else is
 * constant, but extents_check. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define EXTENTS_N_CLASSES 464
#define EXTENTS_WORDS     8
#define EXTENTS_LOOK      64 /* four doublings; as many as `words` has bits in one */
#define EXTENTS_FEW       8
#define EXTENTS_N_STARTS \
        (EXTENTS_N_CLASSES + EXTENTS_LOOK) /* a search may look beyond the last class */

enum extent_state { EXTENT_UNUSED, EXTENT_TAKEN, EXTENT_FREE, EXTENT_EDGE };

struct extent {
        uint32_t start;
        uint32_t n_units;
        uint32_t before;   /* ends where this one starts; 0 at a run's first edge */
        uint32_t after;    /* starts where this one ends; 0 at a run's last edge */
        uint32_t next;     /* of its class, while it is a hole; of the unused ones */
        uint32_t previous; /* of its class; 0 for the first one */
        uint32_t n_slack;  /* taken: bytes of the last unit that nobody asked for */
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
                [EXTENTS_N_STARTS]; /* of the heads, see free_index_order; where there is none, INT32_MAX */
};

/* All zero is empty and owns nothing, too. */
void extents_init(struct extents *extents);
void extents_deinit(struct extents *extents);

/* The next n extents that other calls make need no memory. -ENOMEM. */
COLD int extents_grow(struct extents *extents, uint32_t n);

static inline int extents_reserve(struct extents *extents, uint32_t n)
{
        bool is_room = extents->n_unused + (extents->n_extents - extents->n_touched) >= n;

        return __builtin_expect(is_room, true) ? 0 : extents_grow(extents, n);
}

static inline struct extent *extents_at(const struct extents *extents, uint32_t index)
{
        return &extents->extents[index];
}

/* Units become a hole of the run that ends at the edge `before`, or of the one that begins at the
 * edge `after`, or of both, which are one run from then on; or of a new run when both are 0. The
 * edges that the run has then. Up to three extents. */
struct run_edges {
        uint32_t before; /* 0: the run begins further down */
        uint32_t after;  /* 0: it ends further up */
};
struct run_edges extents_add(struct extents *extents, uint32_t start, uint32_t n_units,
                             struct run_edges touching);

/* The reverse: part of a hole goes. Ends of runs that this makes are returned: 0 where the run ended
 * already. Up to three extents. */
struct run_edges extents_remove(struct extents *extents, uint32_t free_extent, uint32_t start,
                                uint32_t n_units);

/* A hole of at least n_units; 0 if there is none. */
uint32_t extents_find_free(const struct extents *extents, uint32_t n_units);

/* The same, but the holes of its own class are not walked, of which the first may be too small: for who can do
 * without, as often as it likes. */
uint32_t extents_find_first_free(const struct extents *extents, uint32_t n_units);

/* Takes the first n_units of a hole. Returns the taken extent, which is the hole's if nothing of it is
 * left. One extent. */
uint32_t extents_take(struct extents *extents, uint32_t free_extent, uint32_t n_units);

/* Makes a hole of a taken extent, merged with the holes that it touches. Returns the hole. */
uint32_t extents_give(struct extents *extents, uint32_t taken);

/* The units of the largest hole; 0 if there is none. Walks the holes of one class. */
uint32_t extents_largest_free(const struct extents *extents);

/* The holes of n_units and more, in no order: the first one for 0; 0 after the last. */
uint32_t extents_next_large_free(const struct extents *extents, uint32_t n_units,
                                 uint32_t free_extent);

/* What runs hold, added up by their owner for extents_check; begins as all zero. */
struct extents_tally {
        uint64_t n_free;
        uint64_t n_free_units;
        uint64_t n_extents;
        uint64_t n_run_units;
        uint64_t sum_of_free; /* of indices: tells one set of holes from another */
};

/* Asserts that the extents from the edge on tile a run and that no two holes touch; adds them. */
void extents_tally_run(const struct extents *extents, uint32_t edge, struct extents_tally *tally);

/* Asserts that the index is in order and holds, once each, the holes of the tally and no others, and
 * that no extent is lost. */
void extents_check(const struct extents *extents, const struct extents_tally *tally);
