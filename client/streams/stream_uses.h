/* SPDX-License-Identifier: Apache-2.0 */
/* Frees that are not over: of allocations that other streams use too, as gpumem_record_use told, or that streams
 * may use which are registered (streams.h). From the free on marks say whether all of them have come far enough.
 * Until then the free is deferred: the allocation stays where it is. Any thread. */
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
        pthread_mutex_t lock;        /* guards what follows; not held while work is waited for */
        struct stream_use *recorded; /* by pointer: allocations that live */
        struct stream_use *deferred; /* by pointer: those that were freed */
        struct stream_use_list
                pending; /* the deferred ones, in the order in which they are looked at */
        struct stream_use_list
                unmarked; /* those of them that have streams to mark, which captured at the free */
        uint64_t n_ever_deferred;
        _Atomic uint32_t n_deferred; /* read without the lock too, as is the next */
        _Atomic uint32_t n_unmarked;
        struct after_call *after_call;
};

/* So many deferred allocations one look asks for, if none of them is over. */
#define STREAM_USES_LOOKS_MAX 64
#define STREAM_USES_LOOKS_ALL UINT32_MAX

static inline bool stream_uses_none_deferred(const struct stream_uses *uses)
{
        return atomic_load_explicit(&uses->n_deferred, memory_order_relaxed) == 0;
}

void stream_uses_init(struct stream_uses *uses, struct after_call *after_call);

/* Forgets everything; `cuda` may be NULL when nothing was ever recorded. */
void stream_uses_deinit(struct stream_uses *uses, const struct cuda *cuda);

/* The allocation at `pointer` is used in that stream too. `n_uses` counts allocations of its block that are in
 * either table: a free looks here only where there are any. -ENOMEM. */
int stream_uses_add(struct stream_uses *uses, const void *pointer, _Atomic uint32_t *n_uses,
                    void *stream, const struct stream_key *key);

/* It lives, and is used in another stream too. */
bool stream_uses_has_recorded(struct stream_uses *uses, const void *pointer);

/* It was freed, and its free is not over. */
bool stream_uses_has_deferred(struct stream_uses *uses, const void *pointer);

/* STREAM_USES_NONE: no recorded stream uses it, and what registered ones do is the heap's concern (fences.h), or over.
 * STREAM_USES_OVER: all work is over, that of the own stream too. STREAM_USES_DEFERRED: it is freed when stream_uses_next_over gives it.
 * An error leaves it as it was. The own stream is not used after the call; recorded ones may be. */
enum stream_uses_end { STREAM_USES_NONE, STREAM_USES_OVER, STREAM_USES_DEFERRED };
int stream_uses_defer(struct stream_uses *uses, struct streams *streams,
                      const struct stream_use_end *end, enum stream_uses_end *ret_end);

/* Waits until all streams that it is used in have done what is in them, and forgets them. */
int stream_uses_wait(struct stream_uses *uses, const struct cuda *cuda, const void *pointer);

/* Marks the streams that captured when that was to be done, up to one that still does. By a call of the program's:
 * streams live then. */
void stream_uses_mark(struct stream_uses *uses, const struct cuda *cuda);

/* One that is deferred no more, and not counted: everything is over. The caller frees its allocation first, at once, as
 * until then it is neither deferred nor free; and the use after it, with stream_use_free. NULL: there is none among
 * n_looks_max. The caller has polled the rounds. */
struct stream_use *stream_uses_next_over(struct stream_uses *uses, struct streams *streams,
                                         uint32_t n_looks_max);

/* Waits for the work of all that is deferred now: once a context, however many there are. */
void stream_uses_wait_deferred(struct stream_uses *uses, const struct cuda *cuda);
