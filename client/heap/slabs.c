/* SPDX-License-Identifier: Apache-2.0 */
#include "client/heap/slabs.h"

/* Wrong bookkeeping would allocate the same bytes twice, so these asserts stay in every build. */
#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/pages.h"

#define FIRST_ROOM 16

static_assert(sizeof(struct slab) == 32, "two to a cache line");

void slabs_deinit(struct slabs *slabs)
{
        free(slabs->slabs);
        free(slabs->rests);
        *slabs = (struct slabs){.slabs = NULL};
}

/* Doubles an array; pages that were never touched take no memory. */
static int move(void **array, size_t n_bytes)
{
        void *larger = realloc(*array, n_bytes);

        if (!larger)
                return -ENOMEM;
        pages_wish_large(larger, n_bytes);
        *array = larger;
        return 0;
}

int slabs_grow(struct slabs *slabs)
{
        uint32_t n_room = slabs->n_room ? slabs->n_room * 2 : FIRST_ROOM;
        void *headers = slabs->slabs, *rests = slabs->rests;
        int r;

        if (n_room > SLABS_MAX)
                return -ENOMEM;
        r = move(&headers, n_room * sizeof(*slabs->slabs));
        slabs->slabs = headers;
        if (!r)
                r = move(&rests, n_room * sizeof(*slabs->rests));
        slabs->rests = rests;
        if (r)
                return r;
        slabs->n_room = n_room;
        if (!slabs->n_touched)
                slabs->n_touched = 1; /* index 0 is none */
        return 0;
}

unsigned slabs_wish(const struct slabs *slabs, uint32_t n_units)
{
        uint32_t n_live = slabs->n_live[n_units];
        unsigned n_places = SLAB_PLACES_MIN;

        if (n_live < SLAB_FROM)
                return 0;
        while (n_places < SLAB_PLACES_MAX && n_places * 4 <= n_live)
                n_places *= 2;
        return n_places;
}

/* Up to this part of the live places may be free before they count as many. */
#define DENSE_PART 8

/* Are many places of that size free? */
static bool is_sparse(const struct slabs *slabs, unsigned n_units)
{
        return slabs->n_free[n_units] > slabs->n_live[n_units] / DENSE_PART;
}

static bool is_lower(const struct slabs *slabs, const struct slab *slab)
{
        return slab->start < slabs_at(slabs, slabs->heads[slab->n_units])->start;
}

/* The fields of index 0 are written but never read. */
static void put_in(struct slabs *slabs, uint32_t index)
{
        struct slab *slab = slabs_at(slabs, index);
        uint32_t first = slabs->heads[slab->n_units];
        uint32_t *place = &slabs->heads[slab->n_units];

        slab->previous = 0;
        if (first && is_sparse(slabs, slab->n_units) && !is_lower(slabs, slab)) {
                slab->previous = first;
                place = &slabs_at(slabs, first)->next;
        }
        slab->next = *place;
        slabs_at(slabs, *place)->previous = index;
        *place = index;
}

static void take_from(struct slabs *slabs, const struct slab *slab)
{
        slabs_at(slabs, slab->next)->previous = slab->previous;
        if (slab->previous)
                slabs_at(slabs, slab->previous)->next = slab->next;
        else
                slabs->heads[slab->n_units] = slab->next;
}

static void move_first(struct slabs *slabs, uint32_t index)
{
        take_from(slabs, slabs_at(slabs, index));
        put_in(slabs, index);
}

uint32_t slabs_add(struct slabs *slabs, uint32_t extent, uint32_t start, uint32_t n_units,
                   unsigned n_places)
{
        uint32_t index = slabs->first_unused;

        assert(n_units && n_units <= SLAB_UNITS_MAX && n_places && n_places <= SLAB_PLACES_MAX);
        if (index) {
                slabs->first_unused = slabs_at(slabs, index)->next;
        } else {
                assert(slabs->n_touched < slabs->n_room);
                index = slabs->n_touched++;
        }
        *slabs_at(slabs,
                  index) = (struct slab){.free = ~UINT64_C(0) >> (SLAB_PLACES_MAX - n_places),
                                         .start = start,
                                         .inverse = (uint16_t)(32767 / n_units + 1),
                                         .n_units = (uint8_t)n_units,
                                         .n_places = (uint8_t)n_places};
        slabs->rests[index].extent = extent;
        put_in(slabs, index);
        slabs->n_free[n_units] += n_places;
        slabs->n_places += n_places;
        return index;
}

uint32_t slabs_remove(struct slabs *slabs, uint32_t index)
{
        struct slab *slab = slabs_at(slabs, index);

        assert(slab->n_places && slab_is_empty(slab));
        take_from(slabs, slab);
        slabs->n_free[slab->n_units] -= slab->n_places;
        slabs->n_places -= slab->n_places;
        slab->n_places = 0;
        slab->next = slabs->first_unused;
        slabs->first_unused = index;
        return slabs->rests[index].extent;
}

/* Most sizes are multiples of a unit, and have no slack. */
static void set_slack(struct slabs *slabs, uint32_t index, unsigned place, uint32_t n_slack)
{
        uint64_t bit = UINT64_C(1) << place;

        if (n_slack) {
                slabs_at(slabs, index)->slack |= bit;
                slabs->rests[index].n_slack[place] = (uint16_t)n_slack;
        } else {
                slabs_at(slabs, index)->slack &= ~bit;
        }
}

uint32_t slabs_take(struct slabs *slabs, uint32_t n_units, uint32_t n_slack)
{
        uint32_t index = slabs->heads[n_units];
        struct slab *slab = slabs_at(slabs, index);
        unsigned place;

        assert(index && slab->free);
        place = (unsigned)__builtin_ctzll(slab->free);
        slab->free &= slab->free - 1;
        set_slack(slabs, index, place, n_slack);
        slabs->n_free[n_units]--;
        slabs->n_live[n_units]++;
        if (!slab->free)
                take_from(slabs, slab);
        return slab_unit_of(slab, place);
}

bool slabs_give(struct slabs *slabs, uint32_t index, uint32_t unit, uint32_t *ret_n_slack)
{
        struct slab *slab = slabs_at(slabs, index);
        unsigned place = slab_place_of(slab, unit);

        if (slab_is_free(slab, place) || slab_unit_of(slab, place) != unit)
                return false;
        if (!slab->free)
                put_in(slabs, index);
        else if (is_sparse(slabs, slab->n_units) && is_lower(slabs, slab))
                move_first(slabs, index);
        slab->free |= UINT64_C(1) << place;
        slabs->n_free[slab->n_units]++;
        slabs->n_live[slab->n_units]--;
        *ret_n_slack = slabs_slack(slabs, index, place);
        return true;
}

/* Checks the list of slabs of one size with free places. */
static uint32_t check_list(const struct slabs *slabs, unsigned n_units)
{
        uint32_t n = 0, previous = 0;

        for (uint32_t i = slabs->heads[n_units]; i; previous = i, i = slabs_at(slabs, i)->next) {
                const struct slab *slab = slabs_at(slabs, i);

                assert(slab->n_places && slab->free && slab->n_units == n_units);
                assert(slab->previous == previous);
                n++;
        }
        return n;
}

uint64_t slabs_free_units(const struct slabs *slabs)
{
        uint64_t n = 0;

        for (unsigned n_units = 1; n_units <= SLAB_UNITS_MAX; n_units++)
                n += (uint64_t)slabs->n_free[n_units] * n_units;
        return n;
}

uint64_t slabs_live(const struct slabs *slabs)
{
        uint64_t n = slabs->n_places;

        for (unsigned n_units = 1; n_units <= SLAB_UNITS_MAX; n_units++)
                n -= slabs->n_free[n_units];
        return n;
}

uint32_t slabs_largest_free(const struct slabs *slabs)
{
        uint32_t n_units = SLAB_UNITS_MAX;

        while (n_units && !slabs->n_free[n_units])
                n_units--;
        return n_units;
}

uint32_t slabs_check(const struct slabs *slabs)
{
        uint32_t n_listed = 0, n_with_free = 0, n_unused = 0, n_counted = 0;
        uint64_t n_places = 0;
        uint32_t n_free[SLAB_UNITS_MAX + 1] = {0};

        for (uint32_t i = 1; i < slabs->n_touched; i++) {
                const struct slab *slab = slabs_at(slabs, i);

                if (!slab->n_places)
                        continue;
                n_counted++;
                n_places += slab->n_places;
                n_with_free += slab->free != 0;
                n_free[slab->n_units] += (uint32_t)__builtin_popcountll(slab->free);
        }
        for (unsigned n_units = 1; n_units <= SLAB_UNITS_MAX; n_units++) {
                n_listed += check_list(slabs, n_units);
                assert(n_free[n_units] == slabs->n_free[n_units]);
        }
        for (uint32_t i = slabs->first_unused; i; i = slabs_at(slabs, i)->next)
                n_unused++;
        assert(n_listed == n_with_free);
        assert(n_places == slabs->n_places);
        assert(!slabs->n_touched || n_counted + n_unused + 1 == slabs->n_touched);
        return n_counted;
}
