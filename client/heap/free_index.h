/* SPDX-License-Identifier: Apache-2.0 */
/* The index of free extents, by size. Internal to extents.c; extents.h tells the size classes and the cost of a
 * search. */
#pragma once

#include <string.h>

#include "base/err.h"
#include "client/heap/extents.h"

/* The number of classes for each doubling of the size. */
#define FREE_INDEX_STEPS 16

/* The class of a size. From 16 units on it is the exponent and the next 4 bits, which stand side by side in a double;
 * a double holds every number of units exactly. No branch, since sizes are not predictable. */
static inline unsigned free_index_class(uint32_t n_units)
{
        unsigned is_small = -(unsigned)(n_units < FREE_INDEX_STEPS);
        double number = n_units;
        uint64_t bits;

        memcpy(&bits, &number, sizeof(bits));
        return (n_units & is_small) |
               (((unsigned)(bits >> 48) - (1023 + 3) * FREE_INDEX_STEPS) & ~is_small);
}

/* Fetches what a search for n_units reads first. Without the lock: it reads no field. */
static ALWAYS_INLINE void free_index_prefetch(const struct extents *extents, uint32_t n_units)
{
        unsigned class = free_index_class(n_units);

        __builtin_prefetch(&extents->words[0]);
        __builtin_prefetch(&extents->heads[class]);
        __builtin_prefetch(&extents->starts[class]);
}

/* Maps starts to signed numbers in the same order, since vector instructions compare only those. */
static inline int32_t free_index_order(uint32_t start)
{
        return (int32_t)(start ^ UINT32_C(0x80000000));
}

/* The array of extents has just been made. */
void free_index_open(struct extents *extents);

/* Makes a hole of an extent that is in no list. */
void free_index_link(struct extents *extents, uint32_t index);

/* Takes a hole out of its list; its state stays. */
void free_index_unlink(struct extents *extents, uint32_t index);

/* Sets a hole's units; the caller may have changed its start, too. */
void free_index_resize(struct extents *extents, uint32_t index, uint32_t n_units);

/* Asserts that the lists are consistent; adds their holes to the tally. */
void free_index_tally(const struct extents *extents, struct extents_tally *tally);
