/* SPDX-License-Identifier: Apache-2.0 */
/* Deferred frees: of allocations that further streams use, as gpumem_record_use told, or that registered streams may
 * use (streams.h). From the free on, marks tell when the work of these streams is over. Until then the free is
 * deferred: the allocation stays where it is. Any thread. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "client/streams/stream_use.h"
#include "client/streams/streams.h"

TAILQ_HEAD(stream_use_list, stream_use);

struct stream_uses {
        pthread_mutex_t lock;           /* guards what follows; not held while work is waited for */
        struct stream_use *recorded;    /* by pointer: live allocations */
        struct stream_use *deferred;    /* by pointer: freed allocations */
        struct stream_use_list pending; /* deferred frees, in the order in which they are polled */
        struct stream_use_list
                unmarked; /* deferred frees with streams that captured at the free, and are to be marked */
        uint64_t n_ever_deferred;
        _Atomic uint32_t n_deferred; /* read without the lock too, as is the next */
        _Atomic uint32_t n_unmarked;
        struct after_call *after_call;
};

/* The most deferred frees that one call polls if none of them is over. */
#define STREAM_USES_LOOKS_MAX 64
#define STREAM_USES_LOOKS_ALL UINT32_MAX

static inline bool stream_uses_none_deferred(const struct stream_uses *uses)
{
        return atomic_load_explicit(&uses->n_deferred, memory_order_relaxed) == 0;
}

void stream_uses_init(struct stream_uses *uses, struct after_call *after_call);

/* Forgets everything; `cuda` may be NULL if nothing was ever recorded. */
void stream_uses_deinit(struct stream_uses *uses, const struct cuda *cuda);

/* Records that `stream` uses the allocation at `pointer`, too. `n_uses` counts the allocations of its block that are
 * in either table, so that a free looks here only if there are any. -ENOMEM. */
int stream_uses_add(struct stream_uses *uses, const void *pointer, _Atomic uint32_t *n_uses,
                    void *stream, const struct stream_key *key);

/* Is this a live allocation with a recorded stream? */
bool stream_uses_has_recorded(struct stream_uses *uses, const void *pointer);

/* Was it freed, and is its free deferred? */
bool stream_uses_has_deferred(struct stream_uses *uses, const void *pointer);

/* STREAM_USES_NONE: no recorded stream uses it; work of registered streams is over, or left to the heap's fences.
 * STREAM_USES_OVER: all work is over, that of the own stream too. STREAM_USES_DEFERRED: the caller frees it when
 * stream_uses_next_over returns it. An error leaves it as it was. The own stream is not used after the call; recorded
 * ones may be. */
enum stream_uses_end { STREAM_USES_NONE, STREAM_USES_OVER, STREAM_USES_DEFERRED };
int stream_uses_defer(struct stream_uses *uses, struct streams *streams,
                      const struct stream_use_end *end, enum stream_uses_end *ret_end);

/* Waits for the work of all recorded streams of the allocation, and forgets them. */
int stream_uses_wait(struct stream_uses *uses, const struct cuda *cuda, const void *pointer);

/* Marks the streams that could not be marked at the free because they captured. Stops at the first that cannot be
 * marked yet. Call it only from a public call of the program: the streams live then. */
void stream_uses_mark(struct stream_uses *uses, const struct cuda *cuda);

/* Takes out one deferred free whose work is over; n_uses counts it no more. Until the caller has freed the allocation
 * it is neither deferred nor free, so the caller does that first, and then calls stream_use_free. NULL: none of the
 * n_looks_max that were polled is over. The caller has polled the rounds. */
struct stream_use *stream_uses_next_over(struct stream_uses *uses, struct streams *streams,
                                         uint32_t n_looks_max);

/* Waits for the work of all deferred frees, once for each context. */
void stream_uses_wait_deferred(struct stream_uses *uses, const struct cuda *cuda);
