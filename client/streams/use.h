/* What one allocation waits for that other streams use too: streams that were recorded, the one that ordered the free,
 * and rounds of registered streams. From the free on marks say how far its streams have come. The caller has the lock
 * of uses.h, or the use for itself. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/table.h"
#include "client/streams/marks.h"
#include "client/streams/streams.h"

/* Memory is of one context, and may be freed in a stream of another. */
#define USE_CONTEXTS 2

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
struct use_round {
        uint64_t context;
        uint64_t number;
};

struct use {
        const void *pointer;
        _Atomic uint32_t *n_uses;
        struct use_round rounds[USE_CONTEXTS];
        bool is_freed;
        bool is_unmarked; /* in that list of uses.h */
        uint32_t n_streams;
        uint32_t n_recorded; /* of them */
        uint32_t n_room;
        struct used_in *streams;
        uint64_t number; /* of those that were ever parked */
        TAILQ_ENTRY(use) pending_link;
        TAILQ_ENTRY(use) unmarked_link;
        UT_hash_handle hh;
};

/* How an allocation is freed. */
struct use_end {
        const void *pointer;
        _Atomic uint32_t *n_uses;
        /* Whose registered streams may use it: that of the memory, and that of the stream that the free names. 0: none. */
        uint64_t contexts[USE_CONTEXTS];
        struct stream_key own;
        void *const
                *own_stream; /* orders the free, and is alive now; NULL: its work was waited for */
};

/* NULL: no memory. `n_uses` counts it until it is dropped. */
struct use *use_new(const void *pointer, _Atomic uint32_t *n_uses);
void use_drop(const struct cuda *cuda, struct use *use);
void use_free(struct use *use, const struct cuda *cuda); /* without the count */

/* Once, however often it is said. -ENOMEM. */
int use_add(struct use *use, const struct used_in *in);

/* From here on no stream is added, and marks are made. The own stream is not used after this. -ENOMEM, or what the
 * driver says: then use_undo_end leaves it as it was recorded. */
int use_begin_end(struct use *use, const struct streams *streams, const struct use_end *how);
void use_undo_end(struct use *use, const struct cuda *cuda);

/* Marks the streams that are not marked yet, up to one that cannot be. */
int use_mark(const struct cuda *cuda, struct use *use);
bool use_is_marked(const struct use *use);

/* The rounds are known to be over; asks no driver. */
bool use_are_done(struct streams *streams, const struct use_round rounds[USE_CONTEXTS]);

/* All that it waits for is. */
bool use_is_over(struct streams *streams, struct use *use);

int use_wait(const struct use *use, const struct cuda *cuda);

/* The lowest context above `above`, and below `lowest` unless that is 0, that it waits for. */
void use_next_context(const struct use *use, uint64_t above, uint64_t *lowest);

/* The context's work was waited for. */
void use_pass_context(struct use *use, uint64_t context);
