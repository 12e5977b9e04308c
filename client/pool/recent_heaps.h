/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the heap of device memory that a stream used last, by the stream's mark, without a lock. The table grows with
 * the streams: each has a place of its own, and a look-up reads PLACES_NEAR places at most.
 *
 * What is found is a guess, as the heap may have another stream by now: pool_hit finds out under the heap's lock. A
 * table that was too small is kept until the client ends, since threads may still read it; all of them together are
 * as large as the last. Any thread. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/err.h"
#include "client/blocks/pool_state.h"

/* A stream's place is one of these, from the one that its tag names. */
#define PLACES_NEAR 4

struct recent_place {
        _Atomic uint64_t tag; /* of the stream's mark */
        _Atomic(struct stream_heap *) heap;
};

struct recent_table {
        struct recent_table *smaller;
        unsigned n_bits; /* 2^n_bits places, and PLACES_NEAR more, so that no search wraps around */
        struct recent_place places[];
};

struct recent_heaps {
        _Atomic(struct recent_table *) table; /* NULL until the first heap is noted */
        _Atomic(struct stream_heap *)
                guess;        /* the next call's, before its stream is known; or NULL */
        pthread_mutex_t lock; /* of all that write the table */
};

void recent_heaps_init(struct recent_heaps *recent);
void recent_heaps_deinit(struct recent_heaps *recent);

/* The stream with that mark used this heap. */
COLD void recent_heaps_note(struct recent_heaps *recent, const struct stream_mark *mark,
                            struct stream_heap *heap);

/* The stream's next allocation searches for its heap again. */
void recent_heaps_forget(struct recent_heaps *recent, const struct stream_mark *mark);

/* A context's default stream has a small id, and its context tells it apart. */
static inline uint64_t recent_heaps_tag(const struct stream_mark *mark)
{
        return mark->id ^ mark->scope >> 8 ^ mark->scope << 56;
}

/* For a caller that does not know its stream's mark yet: fetches what is probably needed once it does. Returns the heap
 * for which it did; NULL: none. */
static ALWAYS_INLINE struct stream_heap *recent_heaps_prefetch(const struct recent_heaps *recent,
                                                               uint64_t n_bytes)
{
        struct stream_heap *guess = atomic_load_explicit(&recent->guess, memory_order_relaxed);

        __builtin_prefetch(atomic_load_explicit(&recent->table, memory_order_relaxed));
        if (guess)
                pool_prefetch(guess, n_bytes);
        return guess;
}

/* The guess was wrong. To fetch another thread's heap takes its lines from that thread: two threads with a stream
 * each were no faster than one. So no heap is fetched before the next one is noted. */
static ALWAYS_INLINE void recent_heaps_check(struct recent_heaps *recent,
                                             const struct stream_heap *guess,
                                             const struct stream_heap *heap)
{
        if (__builtin_expect(guess && guess != heap, false))
                atomic_store_explicit(&recent->guess, NULL, memory_order_relaxed);
}

/* Ids count up, and contexts are addresses: the product spreads both. */
static inline uint64_t recent_heaps_index(const struct recent_table *table, uint64_t tag)
{
        return tag * UINT64_C(0x9e3779b97f4a7c15) >> (64 - table->n_bits);
}

/* NULL: none is known. */
static ALWAYS_INLINE struct stream_heap *recent_heaps_find(const struct recent_heaps *recent,
                                                           const struct stream_mark *mark)
{
        const struct recent_table *table = atomic_load_explicit(&recent->table,
                                                                memory_order_acquire);
        const struct recent_place *place;
        uint64_t tag = recent_heaps_tag(mark);

        if (!table)
                return NULL;
        place = &table->places[recent_heaps_index(table, tag)];
        for (unsigned i = 0; i < PLACES_NEAR; i++, place++) {
                if (atomic_load_explicit(&place->tag, memory_order_relaxed) == tag)
                        return atomic_load_explicit(&place->heap, memory_order_acquire);
        }
        return NULL;
}
