/* Events: whether the work that was in a stream at one moment is over. Any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "driver/cuda.h"

/* Records the event in a stream of that context; one that is 0 is made before. */
int event_record(const struct cuda *cuda, uint64_t context, void *stream, uint64_t *event);

/* No work that was enqueued before uses anything any more. True also when the context has failed or
 * was destroyed: then nothing runs there. */
bool event_is_over(const struct cuda *cuda, uint64_t event);

/* 0 is legal. */
void event_free(const struct cuda *cuda, uint64_t event);
