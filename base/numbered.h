/* SPDX-License-Identifier: Apache-2.0 */
/* Objects by number, so that a walk through them can rest while some come and go: an object that is there all the while
 * is met once, one that comes or goes meanwhile at most once. Numbers are given again, the one that was freed last
 * first. The objects are their owners'. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct numbered_place {
        void *object;       /* NULL: the place is free, and not the last such one: */
        uint32_t next_free; /* the next of them */
};

struct numbered {
        struct numbered_place *places;
        uint32_t n; /* places that were ever used */
        uint32_t n_room;
        uint32_t n_free;
        uint32_t first_free; /* valid if n_free */
};

#define NUMBERED_NULL ((struct numbered){.n = 0})

/* Where a walk is, and what it may still do in its present part: it also looks at places that are free. */
struct numbered_walk {
        uint32_t next;
        unsigned n_items, n_places;
};

/* What a part of a long task does at most. */
#define PART_ITEMS  64
#define PART_PLACES 1024

void numbered_deinit(struct numbered *all);

/* -ENOMEM. */
int numbered_add(struct numbered *all, void *object, uint32_t *ret_number);
void numbered_remove(struct numbered *all, uint32_t number);

/* The walk goes on with its next part: so many objects. */
void numbered_go_on(struct numbered_walk *walk, unsigned n_items);

/* NULL: the part is over. */
void *numbered_next(const struct numbered *all, struct numbered_walk *walk);

/* The object that it met last took as long as so many more. */
static inline void numbered_spend(struct numbered_walk *walk, unsigned n_items)
{
        walk->n_items -= n_items < walk->n_items ? n_items : walk->n_items;
}

/* The walk's present part is over: the object that it met last took as long as many. */
static inline void numbered_end_part(struct numbered_walk *walk)
{
        walk->n_items = 0;
}

/* The walk meets the object that it met last once more. */
static inline void numbered_meet_again(struct numbered_walk *walk)
{
        walk->next--;
}

/* The walk has met all. */
static inline bool numbered_is_over(const struct numbered *all, const struct numbered_walk *walk)
{
        return walk->next >= all->n;
}
