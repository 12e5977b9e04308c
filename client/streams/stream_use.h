/* SPDX-License-Identifier: Apache-2.0 */
/* What one allocation waits for that other streams use too: streams that were recorded, the one that ordered the free,
 * and rounds of registered streams. From the free on marks say how far its streams have come. The caller has the lock
 * of stream_uses.h, or the use for itself. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/table.h"
#include "client/streams/marks.h"
#include "client/streams/streams.h"

/* Memory is of one context, and may be freed in a stream of another. */
#define STREAM_USE_CONTEXTS 2

enum used_state { USED_UNMARKED, USED_MARKED, USED_OVER };

struct used_in {
        void *stream;
        struct stream_key key;
        bool is_context_wide; /* all streams of the context, instead of one */
        bool is_own;          /* orders the free, and may be gone after it */
        enum used_state state;
        struct marks marks; /* from the free on */
};

/* That it waits for; 0: none. */
struct stream_use_round {
        uint64_t context;
        uint64_t number;
};

struct stream_use {
        const void *pointer;
        _Atomic uint32_t *n_uses;
        struct stream_use_round rounds[STREAM_USE_CONTEXTS];
        bool is_freed;
        bool is_unmarked; /* in that list of stream_uses.h */
        uint32_t n_streams;
        uint32_t n_recorded; /* of them */
        uint32_t n_room;
        struct used_in *streams;
        uint64_t number; /* of those that were ever deferred */
        TAILQ_ENTRY(stream_use) pending_link;
        TAILQ_ENTRY(stream_use) unmarked_link;
        UT_hash_handle hh;
};

/* How an allocation is freed. */
struct stream_use_end {
        const void *pointer;
        _Atomic uint32_t *n_uses;
        /* Whose registered streams may use it: that of the memory, and that of the stream that the free names. 0: none. */
        uint64_t contexts[STREAM_USE_CONTEXTS];
        struct stream_key own;
        void *const
                *own_stream; /* orders the free, and is alive now; NULL: its work was waited for */
};

/* NULL: no memory. `n_uses` counts it until it is dropped. */
struct stream_use *stream_use_new(const void *pointer, _Atomic uint32_t *n_uses);
void stream_use_drop(const struct cuda *cuda, struct stream_use *use);
void stream_use_free(struct stream_use *use, const struct cuda *cuda); /* without the count */

/* Once, however often it is said. -ENOMEM. */
int stream_use_add(struct stream_use *use, const struct used_in *in);

/* From here on no stream is added, and marks are made. The own stream is not used after this. -ENOMEM, or what the
 * driver says: then stream_use_undo_end leaves it as it was recorded. */
int stream_use_begin_end(struct stream_use *use, const struct streams *streams,
                         const struct stream_use_end *how);
void stream_use_undo_end(struct stream_use *use, const struct cuda *cuda);

/* Marks the streams that are not marked yet, up to one that cannot be. */
int stream_use_mark(const struct cuda *cuda, struct stream_use *use);
bool stream_use_is_marked(const struct stream_use *use);

/* The rounds are known to be over; asks no driver. */
bool stream_use_are_done(struct streams *streams,
                         const struct stream_use_round rounds[STREAM_USE_CONTEXTS]);

/* All that it waits for is. */
bool stream_use_is_over(struct streams *streams, struct stream_use *use);

int stream_use_wait(const struct stream_use *use, const struct cuda *cuda);

/* The lowest context above `above`, and below `lowest` unless that is 0, that it waits for. */
void stream_use_next_context(const struct stream_use *use, uint64_t above, uint64_t *lowest);

/* The context's work was waited for. */
void stream_use_pass_context(struct stream_use *use, uint64_t context);
