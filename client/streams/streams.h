/* SPDX-License-Identifier: Apache-2.0 */
/* The streams that the program has registered, and rounds: a round tells when the work is over that all of them had
 * at one moment.
 *
 * Memory leaves the heap of its stream, for another stream, another process or the driver, only when two things are
 * over: the work that was in the memory's own stream at the free (fences.h), and the round that began at the free. So
 * work of a registered stream may still use memory that was freed in another stream. The memory's own stream must
 * then wait for that work before it uses the memory again. PyTorch's allocator allows that, and programs rely on it.
 *
 * A round marks each registered stream of a context. While one of them captures, or the program has announced a capture
 * (capture_gate.h), no mark is possible: the round is owed, and the next public call of any thread after the capture
 * begins it. While too many rounds are pending, because a registered stream is busy, the last one is begun again, and
 * covers later work, too. Only streams that must be alive are marked, since a driver may crash on the handle of a
 * destroyed stream.
 *
 * GPUMEM_FENCE says what a round is. `streams`: as above. `context`: one mark of all work of the context; while any
 * stream captures, the driver refuses it and ends the capture. `own`: no rounds.
 *
 * Any thread. No other lock but the gate is taken under the lock; it is held during driver calls that do not wait. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/runtime/after_call.h"
#include "client/streams/capture_gate.h"
#include "driver/stream.h"

enum fence_way { FENCE_STREAMS, FENCE_CONTEXT, FENCE_OWN };

struct stream_set;

struct streams {
        pthread_mutex_t lock;
        const struct cuda *cuda; /* NULL: no driver */
        enum fence_way way;
        struct stream_set *sets; /* by context */
        struct after_call *after_call;
        struct capture_gate gate; /* taken under the lock */
        /* Read without the lock, too. n_owed: sets that owe a round. n_counted: streams that are registered, or whose
         * work from before they were unregistered is not known to be over. */
        _Atomic uint32_t n_owed;
        _Atomic uint32_t n_counted;
};

/* Reads GPUMEM_FENCE. GPUMEM_E_BAD_FENCE; deinit is legal then, too. */
int streams_init(struct streams *streams, struct after_call *after_call);
void streams_deinit(struct streams *streams);

/* Sets the driver. GPUMEM_E_BAD_FENCE: it cannot do what GPUMEM_FENCE asks for. */
int streams_open(struct streams *streams, const struct cuda *cuda);

/* Registers the stream once more; it is alive and does not capture. -ENOMEM. */
int streams_register(struct streams *streams, void *stream, const struct stream_key *key);

/* Takes back one registration. The last one marks the stream's work so far, and the stream is not used any more.
 * GPUMEM_E_NOT_REGISTERED; after a driver's error nothing has changed. */
int streams_unregister(struct streams *streams, const struct stream_key *key);

/* Is it registered? ret_stream is its handle, which is alive as long as it stays registered. */
bool streams_find(struct streams *streams, const struct stream_key *key, void **ret_stream);

/* Does a round of the stream's context cover the work that is now in it? */
bool streams_cover(struct streams *streams, const struct stream_key *key);

/* The gate for a mark in that stream. NULL: it is neither a default stream nor registered, so that only the present call
 * has it, and no other thread captures in it. */
struct capture_gate *streams_gate_of(struct streams *streams, const struct stream_key *key,
                                     const void *stream);

/* Begins a round of that context: when it is over, all work that is now in registered streams is over. 0: there is no
 * such stream, so nothing is to be waited for. */
uint64_t streams_begin_round(struct streams *streams, uint64_t context);

/* The same, if the stream is registered; else 0. */
uint64_t streams_begin_round_with(struct streams *streams, const struct stream_key *key);

/* The number of the last round of the context that is known to be over, with all before it. Asks no driver. */
uint64_t streams_done_rounds(struct streams *streams, uint64_t context);

/* Asks the driver which rounds are over, and which unregistered streams can be forgotten. */
void streams_poll(struct streams *streams);

/* Waits for all work that may use memory that is freed in `stream` now: that of the stream, and if other streams
 * count, of the whole context. NULL: the caller has no stream. */
int streams_wait(struct streams *streams, uint64_t context, void *const *stream);

/* The same for memory of another context than the stream's; waits only if other streams count. */
int streams_wait_others(struct streams *streams, uint64_t context);

/* May work of other streams use freed memory, though the program has neither waited for it nor recorded it? */
static inline bool streams_forgive(const struct streams *streams)
{
        return streams->way == FENCE_CONTEXT ||
               (streams->way == FENCE_STREAMS && atomic_load(&streams->n_counted));
}

/* `waits`: for the lock, too; else what is owed stays owed where another thread has it. */
void streams_pay(struct streams *streams, bool waits);

/* Called at the end of a public call: begins the rounds that are owed, where no stream captures any more. */
static inline void streams_catch_up(struct streams *streams)
{
        if (__builtin_expect(atomic_load_explicit(&streams->n_owed, memory_order_relaxed), 0))
                streams_pay(streams, false);
}
