/* SPDX-License-Identifier: Apache-2.0 */
/* Where a free waits that other streams defer: the allocation's recorded streams (stream_uses.h), or registered ones
 * that may use it (streams.h). From the free on, marks tell when the work of these streams is over. Until then the
 * allocation stays where it is. Frees that wait for a capture's end are those of capture/capture_frees.h. Any
 * thread. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "client/streams/stream_use.h"
#include "client/streams/streams.h"

struct stream_uses;

TAILQ_HEAD(stream_use_list, stream_use);

struct deferred_frees {
        pthread_mutex_t lock;           /* guards what follows; not held while work is waited for */
        struct stream_use *all;         /* by pointer */
        struct stream_use_list pending; /* in the order in which they are polled */
        struct stream_use_list
                unmarked; /* those with streams that captured at the free, and are to be marked */
        uint64_t n_ever;
        _Atomic uint32_t n; /* read without the lock too, as is the next */
        _Atomic uint32_t n_unmarked;
        struct stream_uses *uses; /* from which they come */
        struct after_call *after_call;
};

/* The most deferred frees that one call polls if none of them is over. */
#define DEFERRED_FREES_LOOKS_MAX 64
#define DEFERRED_FREES_LOOKS_ALL UINT32_MAX

static inline bool deferred_frees_none(const struct deferred_frees *frees)
{
        return atomic_load_explicit(&frees->n, memory_order_relaxed) == 0;
}

void deferred_frees_init(struct deferred_frees *frees, struct stream_uses *uses,
                         struct after_call *after_call);

/* Forgets everything; `cuda` may be NULL if nothing was ever deferred. */
void deferred_frees_deinit(struct deferred_frees *frees, const struct cuda *cuda);

/* Was it freed, and is its free deferred? */
bool deferred_frees_has(struct deferred_frees *frees, const void *pointer);

/* DEFERRED_FREES_NONE: no recorded stream uses it; work of registered streams is over, or left to the heap's fences.
 * DEFERRED_FREES_OVER: all work is over, that of the own stream too. DEFERRED_FREES_DEFERRED: the caller frees it when
 * deferred_frees_next_over returns it. An error leaves it as it was. The own stream is not used after the call;
 * recorded ones may be. */
enum deferred_frees_end { DEFERRED_FREES_NONE, DEFERRED_FREES_OVER, DEFERRED_FREES_DEFERRED };
int deferred_frees_add(struct deferred_frees *frees, struct streams *streams,
                       const struct stream_use_end *how, enum deferred_frees_end *ret_end);

/* Marks the streams that could not be marked at the free because they captured, or a capture was announced. Stops at the
 * first that cannot be marked yet. Call it only from a public call of the program: the streams live then. */
void deferred_frees_mark(struct deferred_frees *frees, struct streams *streams);

/* Takes out one deferred free whose work is over; n_uses counts it no more. Until the caller has freed the allocation
 * it is neither deferred nor free, so the caller does that first, and then calls stream_use_free. NULL: none of the
 * n_looks_max that were polled is over. The caller has polled the rounds. */
struct stream_use *deferred_frees_next_over(struct deferred_frees *frees, struct streams *streams,
                                            uint32_t n_looks_max);

/* Waits for the work of all deferred frees, once for each context. */
void deferred_frees_wait(struct deferred_frees *frees, const struct cuda *cuda);
