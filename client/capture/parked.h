/* Frees in streams that captured, of memory that is not the capture's and that stream's: nobody can say
 * while the capture is under way what comes before the free. It is over when the stream is met again and
 * captures nothing: then the free is ordered there as one of a stream that the memory is not of. A stream
 * that is not met again leaves them until the capture's graphs are gone and somebody waits for all work.
 * Any thread; no lock of it is held during driver calls. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/table.h"
#include "driver/capture.h"

struct tie;

struct parked_free {
        const void *pointer;
        void *stream;
        struct stream_key order;
        struct tie *tie;
        UT_hash_handle hh;
};

struct parked {
        pthread_mutex_t lock;
        struct parked_free *all; /* by pointer */
        _Atomic uint32_t n;      /* read without the lock too */
};

static inline bool parked_are_none(const struct parked *parked)
{
        return atomic_load_explicit(&parked->n, memory_order_relaxed) == 0;
}

void parked_init(struct parked *parked);
void parked_deinit(struct parked *parked);

/* The allocation at `pointer` is freed in `stream`, which captures as `order` says. GPUMEM_E_NOT_OURS: it
 * was already; -ENOMEM. The tie is consumed. */
int parked_add(struct parked *parked, const void *pointer, void *stream,
               const struct stream_key *order, struct tie *take_tie);

bool parked_has(struct parked *parked, const void *pointer);

/* Takes out a free that was made in captures of the stream with that order, or one whose capture's graphs are gone.
 * The caller frees the allocation, then calls parked_end. NULL: there is none. */
struct parked_free *parked_take_of(struct parked *parked, const struct stream_key *order);
struct parked_free *parked_take_gone(struct parked *parked);

/* `r` is what came of the free. False: it has failed, and is parked again. */
bool parked_end(struct parked *parked, struct parked_free *take_free, int r);
