/* SPDX-License-Identifier: Apache-2.0 */
/* The streams that use one allocation, and so what its free must wait for: recorded streams (gpumem_record_use), the
 * stream that orders the free, and rounds of registered streams. From the free on, marks tell which of them are done.
 * The caller has the lock of stream_uses.h or deferred_frees.h, or is the only one with the use. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/table.h"
#include "client/streams/marks.h"
#include "client/streams/streams.h"

/* Memory belongs to one context, and may be freed in a stream of another. */
#define STREAM_USE_CONTEXTS 2

enum used_state { USED_UNMARKED, USED_MARKED, USED_OVER };

struct used_in {
        void *stream;
        struct stream_key key;
        bool is_context_wide; /* stands for all streams of the context */
        bool is_own;          /* orders the free; may be destroyed after it */
        enum used_state state;
        struct marks marks; /* from the free on */
};

/* A round that the free waits for; number 0: none. */
struct stream_use_round {
        uint64_t context;
        uint64_t number;
};

struct stream_use {
        const void *pointer;
        _Atomic uint32_t *n_uses;
        struct stream_use_round rounds[STREAM_USE_CONTEXTS];
        bool is_freed;
        bool is_unmarked; /* it is in the list `unmarked` of deferred_frees.h */
        uint32_t n_streams;
        uint32_t n_recorded; /* of n_streams */
        uint32_t n_room;
        struct used_in *streams;
        uint64_t number; /* counts deferred frees, from 1 */
        TAILQ_ENTRY(stream_use) pending_link;
        TAILQ_ENTRY(stream_use) unmarked_link;
        UT_hash_handle hh;
};

/* How an allocation is freed. */
struct stream_use_end {
        const void *pointer;
        _Atomic uint32_t *n_uses;
        /* The contexts whose registered streams may use the memory: its own, and that of the stream that the free
         * names. 0: none. */
        uint64_t contexts[STREAM_USE_CONTEXTS];
        struct stream_key own;
        void *const *
                own_stream; /* orders the free, and is alive now; NULL: the caller has waited for its work */
};

/* NULL: out of memory. `n_uses` counts the use until it is dropped. */
struct stream_use *stream_use_new(const void *pointer, _Atomic uint32_t *n_uses);
void stream_use_drop(const struct cuda *cuda, struct stream_use *use);
void stream_use_free(struct stream_use *use, const struct cuda *cuda); /* does not lower n_uses */
void stream_use_free_all(struct stream_use **table, const struct cuda *cuda); /* likewise */

/* Adds a stream, once however often it is called. -ENOMEM. */
int stream_use_add(struct stream_use *use, const struct used_in *in);

/* Makes the marks; no stream may be added from here on. The own stream is not used after this call. On -ENOMEM, or
 * the driver's error, stream_use_undo_end restores the use as it was recorded. */
int stream_use_begin_end(struct stream_use *use, struct streams *streams,
                         const struct stream_use_end *how);
void stream_use_undo_end(struct stream_use *use, const struct cuda *cuda);

/* Marks the streams that are not marked yet. Stops with an error at the first that cannot be marked. */
int stream_use_mark(struct streams *streams, struct stream_use *use);
bool stream_use_is_marked(const struct stream_use *use);

/* Are the rounds known to be over? Asks no driver. */
bool stream_use_are_done(struct streams *streams,
                         const struct stream_use_round rounds[STREAM_USE_CONTEXTS]);

/* Is everything over that the free waits for? */
bool stream_use_is_over(struct streams *streams, struct stream_use *use);

int stream_use_wait(const struct stream_use *use, const struct cuda *cuda);

/* Lowers *lowest to the lowest context that the use waits for, if that is above `above`; *lowest 0: none found yet. */
void stream_use_next_context(const struct stream_use *use, uint64_t above, uint64_t *lowest);

/* The caller has waited for the context's work. */
void stream_use_pass_context(struct stream_use *use, uint64_t context);
