/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of units for tests of holes. */
#pragma once

#include "client/heap/extents.h"

static const struct run_edges run_alone = {0, 0};

/* As extents_add, extents_remove and extents_take, with the extents reserved; takes from the hole that
 * extents_find_free says, and returns the taken extent. */
struct run_edges run_add(struct extents *extents, uint32_t start, uint32_t n_units,
                         struct run_edges touching);
struct run_edges run_remove(struct extents *extents, uint32_t free_extent, uint32_t start,
                            uint32_t n_units);
uint32_t run_cut(struct extents *extents, uint32_t n_units);

/* The runs that begin at these edges, up to a 0, are all that there is. */
void runs_check(const struct extents *extents, const uint32_t *edges);
void run_check(const struct extents *extents, uint32_t edge);

void run_expect(const struct extents *extents, uint32_t index, enum extent_state state,
                uint32_t start, uint32_t n_units);
