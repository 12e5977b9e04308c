/* SPDX-License-Identifier: Apache-2.0 */
/* Marks: events that were recorded in one stream, one after another, each with a number that grows. When a mark is
 * over, all work is over that was in the stream before it, and so are the marks before it.
 *
 * An event that a capture caught says nothing, and to query it would end that capture. So a stream that captures gets
 * no mark, and a mark is lost if the stream captures right after the record: it is not queried, and the next one takes
 * its place. Any thread, which spares captures (driver/capture.h); the caller has the lock that guards the marks. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "driver/cuda.h"

struct mark;
TAILQ_HEAD(mark_list, mark);

/* Marks that are pending at most: then the last one is recorded again, for itself and the new one. */
#define MARKS_MAX 256

struct marks {
        unsigned n_pending;
        struct mark_list pending; /* in order */
        struct mark_list spare;
};

/* What a mark is recorded in, and what its number is. */
struct mark_place {
        uint64_t context;
        void *stream; /* alive during the call; may be NULL, for the context's default stream */
        bool is_context_wide; /* instead of a stream: all work of the context; `stream` is not used */
        /* The context is current, of that id, and the stream was just seen not to capture. It can be marked again
         * later, so that the mark may be found lost then. Any other mark is known at once not to be lost. */
        bool is_seen;
        uint64_t context_id;
        uint64_t number;
        uint64_t round; /* of streams.h: the mark is not over before this round is; 0: none */
};

void marks_init(struct marks *marks);
void marks_deinit(struct marks *marks, const struct cuda *cuda);

/* Records a mark. GPUMEM_E_CAPTURES: the stream captures. -ENOMEM, or the driver's error. Then the number is not
 * marked. */
int marks_add(struct marks *marks, const struct cuda *cuda, const struct mark_place *place);

/* The mark that was added last is to be recorded again before it says anything. */
void marks_lose_last(struct marks *marks);

/* Asks the driver which marks are over, whose rounds are not above n_done_rounds. The highest number of them; 0: none
 * more. */
uint64_t marks_poll(struct marks *marks, const struct cuda *cuda, uint64_t n_done_rounds);

/* The marks up to that number are over: their work was waited for. */
void marks_pass(struct marks *marks, uint64_t number);

/* The first number that is not known to be over; 0: all are. */
uint64_t marks_first(const struct marks *marks);

/* The number of the last mark that is pending, or 0; and whether that mark is lost. */
uint64_t marks_last(const struct marks *marks, bool *ret_is_lost);
