/* Allocations that are used in other streams than the one that orders their free: which streams, and,
 * from the free on, whether they have come far enough. Until then the allocation stays where it is. Any
 * thread. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "driver/stream.h"

struct use;

struct uses {
        pthread_mutex_t lock; /* guards the tables */
        struct use *recorded; /* by pointer: allocations that live */
        struct use *parked;   /* by pointer: those that were freed */
        _Atomic uint32_t n;   /* in both; these two are read without the lock too */
        _Atomic uint32_t n_parked;
};

/* Nothing is recorded: most programs never do, and pay this. */
static inline bool uses_are_none(const struct uses *uses)
{
        return atomic_load_explicit(&uses->n, memory_order_relaxed) == 0;
}

static inline bool uses_are_none_parked(const struct uses *uses)
{
        return atomic_load_explicit(&uses->n_parked, memory_order_relaxed) == 0;
}

void uses_init(struct uses *uses);

/* Forgets everything; `cuda` may be NULL when nothing was ever recorded. */
void uses_deinit(struct uses *uses, const struct cuda *cuda);

/* The allocation at `pointer` is used in that stream too. -ENOMEM. */
int uses_add(struct uses *uses, const void *pointer, void *stream, const struct stream_key *key);

/* It was freed, and its free is not over. */
bool uses_has_parked(struct uses *uses, const void *pointer);

/* The allocation is freed, in the order of a stream of its own: from now on events say when the others
 * have come to this point. False: it is used in no other stream. An error leaves it as it was. */
int uses_park(struct uses *uses, const struct cuda *cuda, const void *pointer, bool *ret_parked);

/* Waits until all streams that it is used in have done what is in them, and forgets them. */
int uses_wait(struct uses *uses, const struct cuda *cuda, const void *pointer);

/* A pointer that is parked no more, since everything is over; NULL: there is none. `wait`: for the work
 * of one, if there is none. */
const void *uses_next_over(struct uses *uses, const struct cuda *cuda, bool wait);
