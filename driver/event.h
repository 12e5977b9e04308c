/* SPDX-License-Identifier: Apache-2.0 */
/* Events: whether the work that was in a stream at one moment is over. Any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "driver/cuda.h"

/* It ends with the context that it was made in. All zero: none. */
struct work_event {
        uint64_t handle;
        uint64_t context;
        uint64_t context_id; /* 0: the driver did not say */
};

/* Records the event in a stream of that context; where there is none, or no more, it is made before. */
int event_record(const struct cuda *cuda, uint64_t context, void *stream, struct work_event *event);

/* The same where that context is current, has not ended, and has that id. */
int event_record_here(const struct cuda *cuda, uint64_t context, uint64_t context_id, void *stream,
                      struct work_event *event);

/* The same for all work of the context, in whatever streams. GPUMEM_E_UNSUPPORTED: the driver cannot, or a stream
 * of the context captures, and that capture is lost by this. */
int event_record_all(const struct cuda *cuda, uint64_t context, struct work_event *event);

/* EVENT_OVER: no work that was enqueued before the record uses anything any more. So it is also when the context has
 * failed or was destroyed: then nothing runs there. EVENT_LOST: a capture that has ended by now caught the event,
 * which says nothing. While the capture lasts the query would end it, so the caller must not ask then. */
enum event_state { EVENT_PENDING, EVENT_OVER, EVENT_LOST };
enum event_state event_ask(const struct cuda *cuda, const struct work_event *event);

/* Waits until it is over, in the sense of event_is_over; an error is that of the work. */
int event_wait(const struct cuda *cuda, const struct work_event *event);

/* Later work of a stream waits for what is in `producer` now. Each may be a default stream of the current context. */
int event_order(const struct cuda *cuda, void *stream, void *producer);

/* None is legal, and is what is left. */
void event_free(const struct cuda *cuda, struct work_event *event);
