/* Which holes there are, by size. For holes.c alone, which says what the sizes of classes are and what
 * a search costs. */
#pragma once

#include "client/holes.h"

unsigned holes_class(uint32_t n_units);

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

/* Its start is another one now. */
void holes_moved(struct holes *holes, uint32_t index);

/* Asserts that the lists are in order; adds their holes. */
void holes_tally_index(const struct holes *holes, struct holes_tally *tally);
