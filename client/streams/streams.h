/* SPDX-License-Identifier: Apache-2.0 */
/* The streams that the program registered, and rounds: how far all of them had come at one moment.
 *
 * Memory leaves the heap of its stream, for another stream, another process or the driver, only when two things are
 * over: the work that was in the memory's own stream at the free, which fences.h sees to, and the round that began at
 * the free. So work of a registered stream may still use memory that was freed in another one, as long as its own
 * stream waits for that work before it uses the memory again. PyTorch's allocator allows that, and programs rely on it.
 *
 * A round marks each registered stream of a context. While one of them captures there can be no mark: the round is
 * owed, and the next public call of any thread after the capture begins it. So it is while many rounds are under way,
 * since a registered stream is busy: the next begins when it is known that one is over. Only streams that must be alive
 * are marked, since a driver may crash at the handle of a stream that was destroyed.
 *
 * GPUMEM_FENCE says what a round is: `streams` as above; `context` one mark of all work of the context, which the
 * driver refuses, and which ends the capture, while any stream captures; `own` none.
 * Any thread. The lock is taken last, and held during calls of the driver that wait for nothing. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/runtime/after_call.h"
#include "driver/stream.h"

enum fence_way { FENCE_STREAMS, FENCE_CONTEXT, FENCE_OWN };

struct stream_set;

struct streams {
        pthread_mutex_t lock;
        const struct cuda *cuda; /* NULL: no driver */
        enum fence_way way;
        struct stream_set *sets; /* by context */
        struct after_call *after_call;
        /* Read without the lock too: sets that owe a round, and streams that count: those that are registered, and
         * those that were, until their work is known to be over. */
        _Atomic uint32_t n_owed;
        _Atomic uint32_t n_counted;
};

/* Reads GPUMEM_FENCE. GPUMEM_E_BAD_FENCE, with which deinit is legal too. */
int streams_init(struct streams *streams, struct after_call *after_call);
void streams_deinit(struct streams *streams);

/* The driver that is asked from now on. GPUMEM_E_BAD_FENCE: it cannot do what GPUMEM_FENCE asks for. */
int streams_open(struct streams *streams, const struct cuda *cuda);

/* The stream, which is alive and does not capture, is registered once more. -ENOMEM. */
int streams_register(struct streams *streams, void *stream, const struct stream_key *key);

/* Once less; with the last one its work so far is marked, and the stream is not used any more. GPUMEM_E_NOT_REGISTERED;
 * or what the driver says, with which nothing has changed. */
int streams_unregister(struct streams *streams, const struct stream_key *key);

/* Is it registered? Then its handle; it is alive for as long as it stays so. */
bool streams_find(struct streams *streams, const struct stream_key *key, void **ret_stream);

/* Is a round of its context over only after the work that is now in the stream? */
bool streams_cover(struct streams *streams, const struct stream_key *key);

/* Begins a round of that context: when it is over, so is all work that is in registered streams now. 0: it is over
 * already, since there is no such stream. */
uint64_t streams_begin_round(struct streams *streams, uint64_t context);

/* The rounds of the context up to that number are known to be over. Asks no driver. */
uint64_t streams_done_rounds(struct streams *streams, uint64_t context);

/* Asks the driver which rounds are over, and which streams count no more. */
void streams_poll(struct streams *streams);

/* Waits for all work that may use memory which is freed in `stream` now: that of the stream, and where other streams
 * count, too, that of the whole context. NULL: the caller has no stream. */
int streams_wait(struct streams *streams, uint64_t context, void *const *stream);

/* The same for memory of a context that the stream is not of: only where other streams count. */
int streams_wait_others(struct streams *streams, uint64_t context);

/* May work of other streams use memory that is freed, though it was neither waited for nor recorded? */
static inline bool streams_forgive(const struct streams *streams)
{
        return streams->way == FENCE_CONTEXT ||
               (streams->way == FENCE_STREAMS && atomic_load(&streams->n_counted));
}

void streams_pay(struct streams *streams);

/* At the end of a public call: begins the rounds that are owed, where nothing captures any more. */
static inline void streams_catch_up(struct streams *streams)
{
        if (__builtin_expect(atomic_load_explicit(&streams->n_owed, memory_order_relaxed), 0))
                streams_pay(streams);
}
