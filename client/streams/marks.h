/* SPDX-License-Identifier: Apache-2.0 */
/* Marks: events recorded in one stream, one after another, with growing numbers. When a mark is over, all work that
 * was in the stream before it is over, and so are the earlier marks.
 *
 * An event that was recorded into a capture tells nothing, and querying it would invalidate that capture. So a
 * capturing stream gets no mark. A mark is lost if its stream captures right after the record: the event is not
 * queried, and the next mark takes its place.
 *
 * Any thread, within capture_spare (driver/capture.h). The caller has the lock that guards the marks. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "client/streams/capture_gate.h"
#include "driver/cuda.h"

struct mark;
TAILQ_HEAD(mark_list, mark);

/* The most marks that may be pending. Beyond that the last one is recorded again, for itself and the new one. */
#define MARKS_MAX 256

struct marks {
        unsigned n_pending;
        struct mark_list pending; /* in order */
        struct mark_list spare;
};

/* Where a mark is recorded, and its number. */
struct mark_place {
        uint64_t context;
        void *stream; /* alive during the call; may be NULL, for the context's default stream */
        bool is_context_wide; /* covers all work of the context; `stream` is not used */
        bool is_round_only;   /* its round covers the stream, so there is no event */
        /* NULL: the caller is inside, or names a stream that no thread captures. */
        struct capture_gate *gate;
        /* The context with this id is current, and the stream was just seen not to capture. The caller can mark the
         * stream again later, so that a lost mark may be found then. For any other mark, marks_add finds out itself
         * whether it is lost. */
        bool is_seen;
        uint64_t context_id;
        uint64_t number;
        uint64_t round; /* of streams.h: it must be over before the mark is; 0: none */
};

void marks_init(struct marks *marks);
void marks_deinit(struct marks *marks, const struct cuda *cuda);

/* Records a mark. GPUMEM_E_CAPTURES: the stream captures, or a capture is announced. -ENOMEM, or the driver's error.
 * After a failure the number is not marked. */
int marks_add(struct marks *marks, const struct cuda *cuda, const struct mark_place *place);

/* Makes the last mark count as lost: it says nothing until it is recorded again. */
void marks_lose_last(struct marks *marks);

/* Asks the driver which marks are over, of those whose rounds are at most n_done_rounds. Returns the highest number
 * among them; 0: no further one. */
uint64_t marks_poll(struct marks *marks, const struct cuda *cuda, uint64_t n_done_rounds);

/* The marks up to that number are over: the caller has waited for their work. */
void marks_pass(struct marks *marks, uint64_t number);

/* The first number that is not known to be over; 0: all are over. */
uint64_t marks_first(const struct marks *marks);

/* The number of the last pending mark, or 0, and whether it is lost. */
uint64_t marks_last(const struct marks *marks, bool *ret_is_lost);
