/* SPDX-License-Identifier: Apache-2.0 */
#include "client/heap/extents.h"

#include "base/err.h"
#include "base/pages.h"
#include "client/heap/free_index.h"

/* Wrong bookkeeping would allocate the same bytes twice, so these asserts stay in every build. */
#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_EXTENTS 64

void extents_init(struct extents *extents)
{
        memset(extents, 0, sizeof(*extents));
}

void extents_deinit(struct extents *extents)
{
        free(extents->extents);
        extents_init(extents);
}

/* Doubles the array. A large one is moved by remapping its pages, and pages that were never touched take no memory. */
static int grow(struct extents *extents)
{
        uint32_t n_extents = extents->n_extents ? extents->n_extents * 2 : FIRST_EXTENTS;
        struct extent *array;

        if (n_extents < extents->n_extents)
                return -ENOMEM;
        array = realloc(extents->extents, n_extents * sizeof(*array));
        if (!array)
                return -ENOMEM;
        pages_wish_large(array, n_extents * sizeof(*array));
        extents->extents = array;
        extents->n_extents = n_extents;
        if (!extents->n_touched) {
                extents->n_touched = 1; /* index 0 is none */
                free_index_open(extents);
        }
        return 0;
}

int extents_grow(struct extents *extents, uint32_t n)
{
        int r = 0;

        while (!r && extents->n_unused + (extents->n_extents - extents->n_touched) < n)
                r = grow(extents);
        return r;
}

static ALWAYS_INLINE uint32_t new_extent(struct extents *extents)
{
        uint32_t index = extents->first_unused;

        if (index) {
                extents->first_unused = extents_at(extents, index)->next;
                extents->n_unused--;
        } else {
                assert(extents->n_touched < extents->n_extents);
                index = extents->n_touched++;
        }
        return index;
}

static void drop_extent(struct extents *extents, uint32_t index)
{
        struct extent *extent = extents_at(extents, index);

        extent->state = EXTENT_UNUSED;
        extent->next = extents->first_unused;
        extents->first_unused = index;
        extents->n_unused++;
}

/* Inserts an extent between two others. Beyond an edge that is index 0, whose fields are written but never read. */
static ALWAYS_INLINE uint32_t insert(struct extents *extents, enum extent_state state,
                                     uint32_t start, uint32_t n_units, uint32_t before,
                                     uint32_t after)
{
        uint32_t index = new_extent(extents);

        *extents_at(extents, index) = (struct extent){.start = start,
                                                      .n_units = n_units,
                                                      .before = before,
                                                      .after = after,
                                                      .state = state};
        extents_at(extents, before)->after = index;
        extents_at(extents, after)->before = index;
        return index;
}

/* Takes an extent out from between its neighbours. */
static ALWAYS_INLINE void take_out(struct extents *extents, uint32_t index)
{
        const struct extent *extent = extents_at(extents, index);

        extents_at(extents, extent->before)->after = extent->after;
        extents_at(extents, extent->after)->before = extent->before;
        drop_extent(extents, index);
}

struct run_edges extents_add(struct extents *extents, uint32_t start, uint32_t n_units,
                             struct run_edges touching)
{
        uint32_t end = start + n_units, before = 0, after = 0, index;
        struct run_edges made = {0, 0};

        assert(n_units && end > start);
        if (touching.before) {
                assert(extents_at(extents, touching.before)->start == start);
                before = extents_at(extents, touching.before)->before;
                take_out(extents, touching.before);
        } else {
                before = made.before = insert(extents, EXTENT_EDGE, start, 0, 0, 0);
        }
        if (touching.after) {
                assert(extents_at(extents, touching.after)->start == end);
                after = extents_at(extents, touching.after)->after;
                take_out(extents, touching.after);
        } else {
                after = made.after = insert(extents, EXTENT_EDGE, end, 0, 0, 0);
        }
        index = insert(extents, EXTENT_TAKEN, start, n_units, before, after);
        (void)extents_give(extents, index);
        return made;
}

/* Makes a hole of what is left of an old one, between two extents. */
static void put_free(struct extents *extents, uint32_t start, uint32_t end, uint32_t before,
                     uint32_t after)
{
        free_index_link(extents, insert(extents, EXTENT_FREE, start, end - start, before, after));
}

struct run_edges extents_remove(struct extents *extents, uint32_t free_extent, uint32_t start,
                                uint32_t n_units)
{
        struct extent old = *extents_at(extents, free_extent);
        uint32_t end = start + n_units, old_end = old.start + old.n_units;
        struct run_edges made = {0, 0};

        assert(start >= old.start && end <= old_end && n_units);
        free_index_unlink(extents, free_extent);
        take_out(extents, free_extent);
        /* The run is cut in two; for the moment neither part has an edge at the cut. */
        extents_at(extents, old.before)->after = 0;
        extents_at(extents, old.after)->before = 0;
        if (start == old.start && extents_at(extents, old.before)->state == EXTENT_EDGE) {
                drop_extent(extents, old.before);
        } else {
                made.after = insert(extents, EXTENT_EDGE, start, 0, old.before, 0);
                if (start > old.start)
                        put_free(extents, old.start, start, old.before, made.after);
        }
        if (end == old_end && extents_at(extents, old.after)->state == EXTENT_EDGE) {
                drop_extent(extents, old.after);
        } else {
                made.before = insert(extents, EXTENT_EDGE, end, 0, 0, old.after);
                if (end < old_end)
                        put_free(extents, end, old_end, made.before, old.after);
        }
        return made;
}

uint32_t extents_take(struct extents *extents, uint32_t free_extent, uint32_t n_units)
{
        struct extent *extent = extents_at(extents, free_extent);
        uint32_t taken;

        assert(n_units && n_units <= extent->n_units);
        if (n_units == extent->n_units) {
                free_index_unlink(extents, free_extent);
                extent->state = EXTENT_TAKEN;
                return free_extent;
        }
        taken = insert(extents, EXTENT_TAKEN, extent->start, n_units, extent->before, free_extent);
        extent->start += n_units;
        free_index_resize(extents, free_extent, extent->n_units - n_units);
        extents->n_splits++;
        return taken;
}

static bool is_free(const struct extents *extents, uint32_t index)
{
        return extents_at(extents, index)->state == EXTENT_FREE;
}

/* Removes the hole behind an extent, which is to take in its memory. Returns the hole's units. */
static uint32_t take_next(struct extents *extents, struct extent *extent, uint32_t index)
{
        uint32_t free_extent = extent->after, n_units = extents_at(extents, free_extent)->n_units;

        free_index_unlink(extents, free_extent);
        extent->after = extents_at(extents, free_extent)->after;
        extents_at(extents, extent->after)->before = index;
        drop_extent(extents, free_extent);
        extents->n_merges++;
        return n_units;
}

/* Merges a hole with the adjacent extent, which is in no list, and with n_more_units beyond that. */
static ALWAYS_INLINE void take_in(struct extents *extents, uint32_t free_extent, uint32_t beside,
                                  uint32_t n_more_units)
{
        struct extent *extent = extents_at(extents, free_extent);
        const struct extent *old = extents_at(extents, beside);

        if (old->start < extent->start)
                extent->start = old->start;
        free_index_resize(extents, free_extent, extent->n_units + old->n_units + n_more_units);
        take_out(extents, beside);
        extents->n_merges++;
}

uint32_t extents_give(struct extents *extents, uint32_t taken)
{
        struct extent *extent = extents_at(extents, taken);
        uint32_t before = extent->before, after = extent->after, n_more_units = 0;

        assert(extent->state == EXTENT_TAKEN);
        if (is_free(extents, before)) {
                if (is_free(extents, after))
                        n_more_units = take_next(extents, extent, taken);
                take_in(extents, before, taken, n_more_units);
                return before;
        }
        if (is_free(extents, after)) {
                take_in(extents, after, taken, 0);
                return after;
        }
        free_index_link(extents, taken);
        return taken;
}

void extents_tally_run(const struct extents *extents, uint32_t edge, struct extents_tally *tally)
{
        uint32_t before = 0, index = edge;

        assert(extents_at(extents, edge)->state == EXTENT_EDGE &&
               !extents_at(extents, edge)->before);
        for (; index; before = index, index = extents_at(extents, index)->after) {
                const struct extent *extent = extents_at(extents, index);
                const struct extent *last = extents_at(extents, before);

                tally->n_extents++;
                assert(extent->before == before);
                assert(!before || extent->start == last->start + last->n_units);
                if (extent->state == EXTENT_EDGE) {
                        assert(!extent->n_units && (!before || !extent->after));
                        continue;
                }
                assert(before && extent->after && extent->n_units);
                assert(extent->state == EXTENT_TAKEN || extent->state == EXTENT_FREE);
                tally->n_run_units += extent->n_units;
                if (extent->state != EXTENT_FREE)
                        continue;
                assert(last->state != EXTENT_FREE);
                tally->n_free++;
                tally->n_free_units += extent->n_units;
                tally->sum_of_free += index;
        }
        assert(before != edge);
        assert(extents_at(extents, before)->state == EXTENT_EDGE);
}

void extents_check(const struct extents *extents, const struct extents_tally *tally)
{
        struct extents_tally indexed = {0};
        uint32_t n_unused = 0;

        free_index_tally(extents, &indexed);
        assert(indexed.n_free == extents->n_free && indexed.n_free == tally->n_free);
        assert(indexed.n_free_units == extents->n_units &&
               indexed.n_free_units == tally->n_free_units);
        assert(indexed.sum_of_free == tally->sum_of_free);
        for (uint32_t index = extents->first_unused; index;
             index = extents_at(extents, index)->next) {
                assert(extents_at(extents, index)->state == EXTENT_UNUSED);
                n_unused++;
        }
        assert(n_unused == extents->n_unused);
        assert(!extents->n_touched || tally->n_extents + n_unused + 1 == extents->n_touched);
}
