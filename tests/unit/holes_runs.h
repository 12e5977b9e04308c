/* Runs of units for tests of holes. */
#pragma once

#include "client/heap/holes.h"

static const struct run_edges run_alone = {0, 0};

/* As holes_add, holes_remove and holes_take, with the pieces reserved; takes from the hole that
 * holes_find says, and returns the taken piece. */
struct run_edges run_add(struct holes *holes, uint32_t start, uint32_t n_units,
                         struct run_edges touching);
struct run_edges run_remove(struct holes *holes, uint32_t hole, uint32_t start, uint32_t n_units);
uint32_t run_cut(struct holes *holes, uint32_t n_units);

/* The runs that begin at these edges, up to a 0, are all that there is. */
void runs_check(const struct holes *holes, const uint32_t *edges);
void run_check(const struct holes *holes, uint32_t edge);

void run_expect(const struct holes *holes, uint32_t index, enum piece_state state, uint32_t start,
                uint32_t n_units);
