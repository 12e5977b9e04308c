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

/* No work that was enqueued before uses anything any more. True also when the context has failed or
 * was destroyed: then nothing runs there. */
bool event_is_over(const struct cuda *cuda, const struct work_event *event);

/* None is legal, and is what is left. */
void event_free(const struct cuda *cuda, struct work_event *event);
