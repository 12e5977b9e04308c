/* SPDX-License-Identifier: Apache-2.0 */
/* Small allocations, if there are several of a size: slabs. A slab is one extent, cut into up to 64 places of that
 * size; one word tells which places are free. Pure: addresses are numbers of units and are never followed.
 *
 * A million allocations of up to 8 KiB take half a megabyte of slabs and half a megabyte of cells that find a slab.
 * They also take two megabytes of slack, which is read only where there is some. As extents with entries in the
 * allocation table they would take fifty. Index 0 means none. Arrays move when they grow. Only slabs_reserve makes
 * them grow, so no other function can run out of memory. Threads: none of its own; the owner of the `struct slabs`
 * locks.
 *
 * Choice of a place: the lowest one of the slab that was full most recently, or is newest, since its line is still in
 * a cache. If many places of the size are free, a slab that starts low is preferred: long-lived allocations gather
 * there, so that high slabs end and their blocks go back. bench/RESULTS.md has what both are worth. All operations
 * are constant. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define SLAB_UNITS_MAX  16 /* of an allocation in a slab */
#define SLAB_PLACES_MIN 8
#define SLAB_PLACES_MAX 64 /* as many as `free` has bits */

/* With index 0, which means none: a slab's index has 16 bits. Beyond that small allocations are extents. */
#define SLABS_MAX 65536

/* So many allocations of a size are live before it gets a slab. */
#define SLAB_FROM 2

struct slab {
        uint64_t free;     /* bit p: place p */
        uint64_t slack;    /* bit p: place p is taken and has slack, see slab_rest */
        uint32_t start;    /* a unit */
        uint32_t next;     /* of its size, if it has free places; or of the unused ones */
        uint32_t previous; /* of its size; 0: the first one */
        uint16_t inverse;  /* 32768 / n_units, rounded up */
        uint8_t n_units;   /* of a place */
        uint8_t n_places;  /* 0: unused */
};

/* Fields that are seldom read. */
struct slab_rest {
        uint32_t extent;                   /* the owner's name for the memory */
        uint16_t n_slack[SLAB_PLACES_MAX]; /* bytes of a place's last unit beyond the request */
};

struct slabs {
        struct slab *slabs;
        struct slab_rest *rests;
        uint32_t n_room;
        uint32_t n_touched;
        uint32_t first_unused;
        uint32_t heads[SLAB_UNITS_MAX + 1];  /* slabs with free places */
        uint32_t n_live[SLAB_UNITS_MAX + 1]; /* allocations of that many units, in slabs or not */
        uint32_t n_free[SLAB_UNITS_MAX + 1]; /* places of that many units */
        uint64_t n_places;                   /* of all sizes, free or not */
};

/* A zeroed struct is empty and owns nothing. */
void slabs_deinit(struct slabs *slabs);

/* Makes room, so that the next slab needs no memory. -ENOMEM. */
COLD int slabs_grow(struct slabs *slabs);

static inline int slabs_reserve(struct slabs *slabs)
{
        return slabs->first_unused || slabs->n_touched < slabs->n_room ? 0 : slabs_grow(slabs);
}

static inline struct slab *slabs_at(const struct slabs *slabs, uint32_t index)
{
        return &slabs->slabs[index];
}

static inline uint32_t slab_n_units(const struct slab *slab)
{
        return (uint32_t)slab->n_places * slab->n_units;
}

static inline bool slab_holds(const struct slab *slab, uint32_t unit)
{
        return unit - slab->start < slab_n_units(slab);
}

/* The place that a unit of the slab's lies in. */
static inline unsigned slab_place_of(const struct slab *slab, uint32_t unit)
{
        return (unit - slab->start) * slab->inverse >> 15;
}

static inline uint32_t slab_unit_of(const struct slab *slab, unsigned place)
{
        return slab->start + place * slab->n_units;
}

static inline bool slab_is_free(const struct slab *slab, unsigned place)
{
        return slab->free >> place & 1;
}

static inline bool slab_is_empty(const struct slab *slab)
{
        return slab->free == ~UINT64_C(0) >> (SLAB_PLACES_MAX - slab->n_places);
}

/* How many places the next slab for n_units should have; 0: too few are live for a slab. Its free places stay a small
 * part of the live ones. */
unsigned slabs_wish(const struct slabs *slabs, uint32_t n_units);

/* Adds a slab whose places are all free. Returns its index. */
uint32_t slabs_add(struct slabs *slabs, uint32_t extent, uint32_t start, uint32_t n_units,
                   unsigned n_places);

/* Removes an empty slab. Returns its extent. */
uint32_t slabs_remove(struct slabs *slabs, uint32_t index);

/* Is there a free place of n_units? */
static inline bool slabs_have(const struct slabs *slabs, uint32_t n_units)
{
        return slabs->heads[n_units] != 0;
}

/* Takes a free place. Returns its first unit. */
uint32_t slabs_take(struct slabs *slabs, uint32_t n_units, uint32_t n_slack);

/* Ends the allocation that starts at that unit of the slab. ret_n_slack: as slabs_take was given it. False: none
 * starts there. */
bool slabs_give(struct slabs *slabs, uint32_t index, uint32_t unit, uint32_t *ret_n_slack);

static inline uint32_t slabs_slack(const struct slabs *slabs, uint32_t index, unsigned place)
{
        return slabs_at(slabs, index)->slack >> place & 1 ? slabs->rests[index].n_slack[place] : 0;
}

/* The units of all free places. */
uint64_t slabs_free_units(const struct slabs *slabs);

/* The allocations in slabs. */
uint64_t slabs_live(const struct slabs *slabs);

/* The units of the largest free place; 0: none. */
uint32_t slabs_largest_free(const struct slabs *slabs);

/* Asserts that the lists hold the slabs with free places, once each, and that no slab is lost. Linear. Returns the
 * number of slabs. */
uint32_t slabs_check(const struct slabs *slabs);
