/* SPDX-License-Identifier: Apache-2.0 */
#include "base/numbered.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define FIRST_ROOM 64

void numbered_deinit(struct numbered *all)
{
        assert(all->n_free == all->n);
        free(all->places);
        *all = NUMBERED_NULL;
}

static int make_room(struct numbered *all)
{
        uint32_t n_room = all->n_room ? 2 * all->n_room : FIRST_ROOM;
        struct numbered_place *places;

        if (all->n < all->n_room)
                return 0;
        places = realloc(all->places, n_room * sizeof(*places));
        if (!places)
                return -ENOMEM;
        all->places = places;
        all->n_room = n_room;
        return 0;
}

int numbered_add(struct numbered *all, void *object, uint32_t *ret_number)
{
        uint32_t number = all->first_free;
        int r;

        assert(object);
        if (all->n_free) {
                all->first_free = all->places[number].next_free;
                all->n_free--;
        } else {
                r = make_room(all);
                if (r)
                        return r;
                number = all->n++;
        }
        all->places[number].object = object;
        *ret_number = number;
        return 0;
}

void numbered_remove(struct numbered *all, uint32_t number)
{
        assert(number < all->n && all->places[number].object);
        all->places[number] = (struct numbered_place){.next_free = all->first_free};
        all->first_free = number;
        all->n_free++;
}

void numbered_go_on(struct numbered_walk *walk, unsigned n_items)
{
        walk->n_items = n_items;
        walk->n_places = n_items > UINT32_MAX / (PART_PLACES / PART_ITEMS)
                                 ? UINT32_MAX
                                 : n_items * (PART_PLACES / PART_ITEMS);
}

void *numbered_next(const struct numbered *all, struct numbered_walk *walk)
{
        while (walk->n_items && walk->n_places && walk->next < all->n) {
                void *object = all->places[walk->next++].object;

                walk->n_places--;
                if (!object)
                        continue;
                walk->n_items--;
                return object;
        }
        return NULL;
}
