/* SPDX-License-Identifier: Apache-2.0 */
/* The index of free extents, by size. For extents.c alone, which says what the sizes of classes are and what
 * a search costs. */
#pragma once

#include <string.h>

#include "client/heap/extents.h"

/* Classes a doubling of sizes. */
#define FREE_INDEX_STEPS 16

/* In a class: of 16 units and more the exponent and the next 4 bits, as they stand side by side in a
 * double, which holds every number of units. Without a branch, as nobody foresees what sizes come. */
static inline unsigned free_index_class(uint32_t n_units)
{
        unsigned is_small = -(unsigned)(n_units < FREE_INDEX_STEPS);
        double number = n_units;
        uint64_t bits;

        memcpy(&bits, &number, sizeof(bits));
        return (n_units & is_small) |
               (((unsigned)(bits >> 48) - (1023 + 3) * FREE_INDEX_STEPS) & ~is_small);
}

/* Starts in an order that the processor compares several of at once: there it has signed numbers only. */
static inline int32_t free_index_order(uint32_t start)
{
        return (int32_t)(start ^ UINT32_C(0x80000000));
}

/* The array of extents is there for the first time. */
void free_index_open(struct extents *extents);

/* An extent that is in no list becomes a hole. */
void free_index_link(struct extents *extents, uint32_t index);

/* It is in no list any more, and keeps its state. */
void free_index_unlink(struct extents *extents, uint32_t index);

/* It has so many units now, and its start may be another one. */
void free_index_resize(struct extents *extents, uint32_t index, uint32_t n_units);

/* Asserts that the lists are in order; adds their holes. */
void free_index_tally(const struct extents *extents, struct extents_tally *tally);
