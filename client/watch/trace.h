/* SPDX-License-Identifier: Apache-2.0 */
/* Records the process's allocations and frees in the file that GPUMEM_TRACE names: what a trace is says
 * client/watch/trace_format.h. All clients of the process share it.
 *
 * A call that has succeeded takes the next slot of a ring by one atomic addition, which is also what orders the calls
 * of all threads; nothing is held up by another thread. A thread of the trace's own takes the slots in their order and
 * writes the file. Only when the ring is full does a call wait for that thread; and when it has not moved for a second,
 * what it would have recorded is lost, and counted. A thread that ends leaves nothing behind: no slot is its own.
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

/* Begins to record if GPUMEM_TRACE is set and nothing has begun yet. Why it does not is logged. */
void trace_start(void);

/* After success. `client` is only what tells allocations of one client from others; `cuda` may be NULL. */
void trace_alloc(const void *client, const struct cuda *cuda, const struct gpumem_request *request,
                 const void *pointer);
void trace_free(const void *pointer);

/* What the client has left ends, and what was recorded so far is in the file. */
void trace_disconnect(const void *client);
