/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/recent_heaps.h"

#include <stdbool.h>
#include <stdlib.h>

#define N_BITS_FIRST 6
#define N_BITS_MOST  20

void recent_heaps_init(struct recent_heaps *recent)
{
        atomic_init(&recent->table, NULL);
        atomic_init(&recent->guess, NULL);
        pthread_mutex_init(&recent->lock, NULL);
}

void recent_heaps_deinit(struct recent_heaps *recent)
{
        struct recent_table *table = atomic_load(&recent->table);

        while (table) {
                struct recent_table *smaller = table->smaller;

                free(table);
                table = smaller;
        }
        pthread_mutex_destroy(&recent->lock);
}

static struct recent_table *new_table(struct recent_table *smaller)
{
        unsigned n_bits = smaller ? smaller->n_bits + 1 : N_BITS_FIRST;
        size_t n_places = ((size_t)1 << n_bits) + PLACES_NEAR;
        struct recent_table *table = calloc(1,
                                            sizeof(*table) + n_places * sizeof(table->places[0]));

        if (!table)
                return NULL;
        table->smaller = smaller;
        table->n_bits = n_bits;
        return table;
}

/* Does the place still name the stream that has its heap? A heap that has ended has no stream. */
static bool is_current(const struct recent_place *place)
{
        const struct stream_heap *heap = atomic_load_explicit(&place->heap, memory_order_relaxed);
        struct stream_mark mark;

        if (!heap)
                return false;
        mark.scope = atomic_load_explicit(&heap->mark.scope, memory_order_relaxed);
        mark.id = atomic_load_explicit(&heap->mark.id, memory_order_relaxed);
        return mark.scope != stream_mark_none.scope &&
               recent_heaps_tag(&mark) == atomic_load_explicit(&place->tag, memory_order_relaxed);
}

/* The place that has the tag, or else one that may get it; NULL: all are taken. */
static struct recent_place *place_for(struct recent_table *table, uint64_t tag)
{
        struct recent_place *place = &table->places[recent_heaps_index(table, tag)], *free = NULL;

        for (unsigned i = 0; i < PLACES_NEAR; i++, place++) {
                if (atomic_load_explicit(&place->tag, memory_order_relaxed) == tag)
                        return place;
                if (!free && !is_current(place))
                        free = place;
        }
        return free;
}

/* A thread that reads meanwhile finds no heap, or this one. */
static void set(struct recent_place *place, uint64_t tag, struct stream_heap *heap)
{
        atomic_store_explicit(&place->heap, NULL, memory_order_release);
        atomic_store_explicit(&place->tag, tag, memory_order_release);
        atomic_store_explicit(&place->heap, heap, memory_order_release);
}

static bool copy(const struct recent_table *from, struct recent_table *to)
{
        size_t n_places = ((size_t)1 << from->n_bits) + PLACES_NEAR;
        bool all = true;

        for (size_t i = 0; i < n_places; i++) {
                const struct recent_place *place = &from->places[i];
                uint64_t tag = atomic_load_explicit(&place->tag, memory_order_relaxed);
                struct recent_place *other;

                if (!is_current(place))
                        continue;
                other = place_for(to, tag);
                all = all && other;
                if (other)
                        set(other, tag, atomic_load_explicit(&place->heap, memory_order_relaxed));
        }
        return all;
}

/* Returns a free place in a larger table; NULL: there is no memory for one. The caller has the lock. */
static struct recent_place *grow(struct recent_heaps *recent, uint64_t tag)
{
        struct recent_table *table = atomic_load_explicit(&recent->table, memory_order_relaxed);
        struct recent_place *place = NULL;

        while (!place && (!table || table->n_bits < N_BITS_MOST)) {
                struct recent_table *larger = new_table(table);

                if (!larger)
                        return NULL;
                if (!table || copy(table, larger))
                        place = place_for(larger, tag);
                table = larger;
                atomic_store_explicit(&recent->table, table, memory_order_release);
        }
        return place;
}

void recent_heaps_note(struct recent_heaps *recent, const struct stream_mark *mark,
                       struct stream_heap *heap)
{
        uint64_t tag = recent_heaps_tag(mark);
        struct recent_place *place = NULL;
        struct recent_table *table;

        pthread_mutex_lock(&recent->lock);
        table = atomic_load_explicit(&recent->table, memory_order_relaxed);
        if (table)
                place = place_for(table, tag);
        if (!place)
                place = grow(recent, tag);
        if (place)
                set(place, tag, heap);
        atomic_store_explicit(&recent->guess, heap, memory_order_relaxed);
        pthread_mutex_unlock(&recent->lock);
}

void recent_heaps_forget(struct recent_heaps *recent, const struct stream_mark *mark)
{
        uint64_t tag = recent_heaps_tag(mark);
        struct recent_table *table;
        struct recent_place *place;

        pthread_mutex_lock(&recent->lock);
        table = atomic_load_explicit(&recent->table, memory_order_relaxed);
        place = table ? place_for(table, tag) : NULL;
        if (place && atomic_load_explicit(&place->tag, memory_order_relaxed) == tag)
                atomic_store_explicit(&place->heap, NULL, memory_order_release);
        pthread_mutex_unlock(&recent->lock);
}
