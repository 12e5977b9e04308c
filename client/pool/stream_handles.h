/* SPDX-License-Identifier: Apache-2.0 */
/* Handles of streams, gpumem_stream_open: a record of each open stream. It keeps what other calls ask the driver for.
 * The stream lives until its close, so the driver gives its id to no other stream meanwhile.
 *
 * The client owns all records until it ends. A record that was closed is kept for a while before it serves another
 * stream, so that a call with a closed handle finds that out. Any thread; no other lock is taken under the lock. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/table.h"
#include "client/blocks/pool_state.h"
#include "client/runtime/stacks.h"
#include "driver/stream.h"
#include "gpumem.h"

/* So many handles are closed before a closed one is used again. */
#define STREAM_HANDLES_KEPT 64

/* The fields that every call reads share one cache line. */
struct gpumem_stream {
        /* The heap of device memory that the stream used last: a guess, as in recent_heaps.h. NULL: none is known, or
         * the handle is closed. */
        _Alignas(64) _Atomic(struct stream_heap *) heap;
        struct stream_mark mark; /* while the stream captures nothing */
        void *stream;
        struct gpumem_client *client;
        struct stream_key key;
        _Atomic uint32_t n_open; /* written under the lock; 0: closed */
        struct stack closed_by;  /* with GPUMEM_DEBUG=stacks */
        UT_hash_handle hh;
        TAILQ_ENTRY(gpumem_stream) link; /* of closed ones */
};

TAILQ_HEAD(closed_handles, gpumem_stream);

struct stream_handles {
        pthread_mutex_t lock;
        struct gpumem_stream *open;   /* by key */
        struct closed_handles closed; /* the longest closed first */
        uint32_t n_closed;
        _Atomic uint32_t n_open; /* read without the lock, too */
};

void stream_handles_init(struct stream_handles *handles);

/* Ends all handles, open or not. */
void stream_handles_deinit(struct stream_handles *handles);

/* Returns the handle of the stream, opened once more. -ENOMEM. */
int stream_handles_open(struct stream_handles *handles, struct gpumem_client *client, void *stream,
                        const struct stream_key *key, struct gpumem_stream **ret_handle);

/* Closes it once. Returns how often it is open then. `by` is kept for the last time; NULL: nothing is. GPUMEM_E_CLOSED:
 * it is closed already. */
int stream_handles_close(struct stream_handles *handles, struct gpumem_stream *handle,
                         const struct stack *by, uint32_t *ret_n_open);

/* gpumem_stream_alloc and gpumem_stream_free, as far as the stream's own heap serves them at once. GPUMEM_E_REFUSED:
 * it does not; another call finds out why. */
int stream_handle_hit(struct gpumem_stream *handle, uint64_t n_bytes, void **ret_pointer);
int stream_handle_give(struct gpumem_stream *handle, const void *pointer);

/* Another call has allocated for the stream: its heap is known. */
void stream_handle_note(struct gpumem_stream *handle);

/* Is the stream open? ret_stream is its CUDA handle. */
bool stream_handles_find(struct stream_handles *handles, const struct stream_key *key,
                         void **ret_stream);

/* The next allocation for the stream with that key searches for its heap again. */
void stream_handles_forget(struct stream_handles *handles, const struct stream_key *key);
