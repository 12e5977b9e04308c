/* Which holes there are, by size. For holes.c alone, which says what the sizes of classes are and what
 * a search costs. */
#pragma once

#include <string.h>

#include "client/heap/holes.h"

/* Classes a doubling of sizes. */
#define HOLES_STEPS 16

/* In a class: of 16 units and more the exponent and the next 4 bits, as they stand side by side in a
 * double, which holds every number of units. Without a branch, as nobody foresees what sizes come. */
static inline unsigned holes_class(uint32_t n_units)
{
        unsigned is_small = -(unsigned)(n_units < HOLES_STEPS);
        double number = n_units;
        uint64_t bits;

        memcpy(&bits, &number, sizeof(bits));
        return (n_units & is_small) |
               (((unsigned)(bits >> 48) - (1023 + 3) * HOLES_STEPS) & ~is_small);
}

/* Starts in an order that the processor compares several of at once: there it has signed numbers only. */
static inline int32_t holes_order(uint32_t start)
{
        return (int32_t)(start ^ UINT32_C(0x80000000));
}

/* The array of pieces is there for the first time. */
void holes_open_index(struct holes *holes);

/* A piece that is in no list becomes a hole. */
void holes_link(struct holes *holes, uint32_t index);

/* It is in no list any more, and keeps its state. */
void holes_unlink(struct holes *holes, uint32_t index);

/* It has so many units now, and its start may be another one. */
void holes_resize(struct holes *holes, uint32_t index, uint32_t n_units);

/* Asserts that the lists are in order; adds their holes. */
void holes_tally_index(const struct holes *holes, struct holes_tally *tally);
