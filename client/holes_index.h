/* Which holes there are, by size. For holes.c alone, which says what the sizes of classes are and what
 * a search costs. */
#pragma once

#include "client/holes.h"

unsigned holes_class(uint32_t n_units);

/* A piece that is in no list becomes a hole. */
void holes_link(struct holes *holes, uint32_t index);

/* It is in no list any more, and keeps its state. */
void holes_unlink(struct holes *holes, uint32_t index);

/* Its start is another one now. */
void holes_moved(struct holes *holes, uint32_t index);

/* Asserts that the lists are in order; adds their holes. */
void holes_tally_index(const struct holes *holes, struct holes_tally *tally);
