/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/heap/extents_runs.h"

#include <check.h>

struct run_edges run_add(struct extents *extents, uint32_t start, uint32_t n_units,
                         struct run_edges touching)
{
        ck_assert_int_eq(extents_reserve(extents, 3), 0);
        return extents_add(extents, start, n_units, touching);
}

struct run_edges run_remove(struct extents *extents, uint32_t free_extent, uint32_t start,
                            uint32_t n_units)
{
        ck_assert_int_eq(extents_reserve(extents, 3), 0);
        return extents_remove(extents, free_extent, start, n_units);
}

uint32_t run_cut(struct extents *extents, uint32_t n_units)
{
        uint32_t free_extent = extents_find_free(extents, n_units);

        ck_assert_uint_ne(free_extent, 0);
        ck_assert_int_eq(extents_reserve(extents, 1), 0);
        return extents_take(extents, free_extent, n_units);
}

void runs_check(const struct extents *extents, const uint32_t *edges)
{
        struct extents_tally tally = {0};

        for (; *edges; edges++)
                extents_tally_run(extents, *edges, &tally);
        extents_check(extents, &tally);
}

void run_check(const struct extents *extents, uint32_t edge)
{
        runs_check(extents, (uint32_t[]){edge, 0});
}

void run_expect(const struct extents *extents, uint32_t index, enum extent_state state,
                uint32_t start, uint32_t n_units)
{
        const struct extent *extent = extents_at(extents, index);

        ck_assert_int_eq(extent->state, state);
        ck_assert_uint_eq(extent->start, start);
        ck_assert_uint_eq(extent->n_units, n_units);
}
