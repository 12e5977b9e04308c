/* SPDX-License-Identifier: Apache-2.0 */
/* Events: tell whether the work is over that was in a stream at one moment. Any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "driver/cuda.h"

/* An event ends with the context in which it was made. A zeroed struct is no event. */
struct work_event {
        uint64_t handle;
        uint64_t context;
        uint64_t context_id; /* 0: the driver did not tell */
};

/* Records the event in a stream of that context. Makes the event first, if there is none or its context has ended. */
int event_record(const struct cuda *cuda, uint64_t context, void *stream, struct work_event *event);

/* The same if that context is current, has not ended, and has that id. */
int event_record_here(const struct cuda *cuda, uint64_t context, uint64_t context_id, void *stream,
                      struct work_event *event);

/* The same for all work of the context, in any stream. GPUMEM_E_UNSUPPORTED: the driver cannot, or a stream of the
 * context captures, and this has invalidated that capture. */
int event_record_all(const struct cuda *cuda, uint64_t context, struct work_event *event);

/* EVENT_OVER: no work that was enqueued before the record is pending. Also if the context has failed or was
 * destroyed, since nothing runs there then. EVENT_LOST: a capture that has ended by now caught the event, which tells
 * nothing. While the capture lasts the query would end it, so the caller must not ask then. */
enum event_state { EVENT_PENDING, EVENT_OVER, EVENT_LOST };
enum event_state event_ask(const struct cuda *cuda, const struct work_event *event);

/* Waits until event_ask would return EVENT_OVER; an error is that of the work. */
int event_wait(const struct cuda *cuda, const struct work_event *event);

/* Makes later work of a stream wait for the present work of `producer`. Each may be a default stream of the current
 * context. */
int event_order(const struct cuda *cuda, void *stream, void *producer);

/* Frees the event; the struct is zeroed. Legal without an event. */
void event_free(const struct cuda *cuda, struct work_event *event);
