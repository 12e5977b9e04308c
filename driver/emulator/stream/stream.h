/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: each has a queue and a thread of its own, which runs the operations in order.
 *
 * Life: a stream is counted. The application's handle (or the context, for the default stream)
 * holds one count, its thread one, and every moment one: so a destroyed stream finishes what
 * was queued, and an event recorded on it can still be asked.
 *
 * Locks: the emulator's lock orders submissions, over all streams; a stream's own mutex guards its
 * queue and is taken inside. While an operation runs neither is held. */
#pragma once

#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "driver/emulator/stream/place.h"

struct context;
struct stream;

/* A place in a stream's order: passed when everything submitted up to it is done. Holds a count. */
struct moment {
        struct stream *stream; /* NULL: always passed */
        uint64_t sequence;
};

struct operation;

struct operation_type {
        /* Any result but success makes the context fail. Not called once the context has failed. */
        CUresult (*run)(struct operation *operation, struct context *context);
        void (*free)(struct operation *operation);
        /* Would it wait for something outside if it ran now? NULL: never. */
        bool (*is_held)(const struct operation *operation, const struct context *context);
        /* It needs memory only, and so may be done after the process was killed. */
        bool outlives;
};

/* Embedded as the first member of each kind of operation. */
struct operation {
        const struct operation_type *type;
        struct operation *next;
        uint64_t sequence;    /* in its stream, from 1 */
        struct moment *after; /* waited for before it runs */
        unsigned n_after;
};

enum stream_kind { STREAM_CREATED, STREAM_LEGACY, STREAM_PER_THREAD };

struct stream {
        TAILQ_ENTRY(stream) link; /* in the context; until its thread ends */
        TAILQ_ENTRY(stream) all;  /* likewise, among all streams */
        struct context *context;
        enum stream_kind kind;
        unsigned flags;
        int priority;
        uint64_t id;
        uintptr_t handle;           /* 0 but for created ones */
        uint64_t submitted;         /* under the emulator's lock */
        struct capture_place place; /* likewise: the capture that it is part of */
        unsigned n_changing;        /* likewise: threads that begin or end a capture in it */
        TAILQ_ENTRY(stream) capture_link;
        CUgraphEdgeData *edges; /* likewise: what was last given out, one for each of the tip */
        unsigned refs;

        pthread_mutex_t mutex;
        pthread_cond_t changed;
        struct operation *running; /* taken out by the thread */
        struct operation *first;
        struct operation **last;
        uint64_t completed;
        uint64_t *progress; /* the last one done, in a page that forked children share */
        enum { STREAM_OPEN, STREAM_CLOSED } state;
};

/* The one after it, NULL for the first; of all that have a thread. With the emulator's lock held. */
struct stream *stream_next(struct stream *stream);

/* The nearest valid priority. */
int stream_priority(int wanted);

/* With the emulator's lock held. The caller holds the one count of it. */
CUresult stream_new(struct context *context, enum stream_kind kind, unsigned flags, int priority,
                    struct stream **ret_stream);

struct stream *stream_ref(struct stream *stream);
struct stream *stream_unref(struct stream *stream);

/* No further submissions; what is queued still runs. Consumes the count. */
void stream_close(struct stream *take_stream);

/* Queues the operation as it is, unless the stream was closed: submit.h has the rules. With the emulator's
 * lock held; consumes the operation if it succeeds. */
CUresult stream_queue(struct stream *stream, struct operation *take_operation);

/* Queues the operation behind what is left in the stream, also in one that was closed, and whatever the
 * rules of the default stream say. With the emulator's lock held; the stream must not capture. False:
 * nothing was left, and the operation is not taken. */
bool stream_append(struct stream *stream, struct operation *take_operation,
                   struct moment *ret_moment);

/* Adds a moment to what the operation waits for; consumes it, also on failure. */
CUresult operation_add_after(struct operation *operation, struct moment take_moment);
void operation_free(struct operation *operation);

/* The end of what is submitted so far. With the emulator's lock held. */
struct moment stream_end(struct stream *stream);

/* Is something submitted not done yet? With the emulator's lock held. */
bool stream_is_busy(struct stream *stream);

/* Are its operations captured? Takes the emulator's lock. */
bool stream_is_captured(const struct stream *stream);

/* Does work in the context's default stream order this one? */
bool stream_is_blocking(const struct stream *stream);

/* Waits for everything submitted to the context so far, and gives its failure. No lock held. */
CUresult stream_wait_all(struct context *context);

void moment_wait(const struct moment *moment);
bool moment_has_passed(const struct moment *moment);
struct moment moment_copy(const struct moment *moment);
void moment_clear(struct moment *moment);
