/* SPDX-License-Identifier: Apache-2.0 */
/* Records the process's allocations and frees in the file that GPUMEM_TRACE names, for all clients of the process.
 * client/watch/trace_format.h defines a trace.
 *
 * A call that has succeeded takes the next slot of a ring by one atomic addition, which also orders the calls of all
 * threads. No call waits for another thread. The trace's own thread reads the slots in order and writes the file. A
 * call waits for it only when the ring is full. If it has not moved for a second, the call is not recorded, and is
 * counted as lost. A thread that ends leaves nothing behind, since no slot belongs to it.
 *
 * Any thread. A forked child records nothing, and closes its copies of the files. */
#pragma once

#include <stdbool.h>

#include "client/watch/switches.h"
#include "driver/cuda.h"
#include "gpumem.h"

static inline bool trace_is_on(void)
{
        return switch_is_on(SWITCH_TRACE);
}

/* Begins to record if GPUMEM_TRACE is set and no recording has begun. Logs a warning with the reason if it cannot. */
void trace_start(void);

/* Called after success. `client` only tells allocations of one client from those of others; `cuda` may be NULL. */
void trace_alloc(const void *client, const struct cuda *cuda, const struct gpumem_request *request,
                 const void *pointer);
void trace_free(const void *pointer);

/* Ends the client's remaining allocations. On return all that was recorded so far is in the file. */
void trace_disconnect(const void *client);
