/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts, known by the number of their handle. Any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "driver/cuda.h"

/* The calling thread's; GPUMEM_E_NO_CONTEXT if it has none. */
int context_current(const struct cuda *cuda, uint64_t *ret_context);

/* The ordinal of the device that it is on; GPUMEM_E_NO_CONTEXT. */
int context_device(const struct cuda *cuda, int *ret_ordinal);

/* The device's primary context: one hold more, one less. */
int context_retain_primary(const struct cuda *cuda, int ordinal, uint64_t *ret_context);
int context_release_primary(const struct cuda *cuda, int ordinal);

/* The device's primary context, kept for as long as the process lives and made current in the calling
 * thread. */
int context_make_own(const struct cuda *cuda, int ordinal);

/* A driver may crash in calls in a context that has ended, and with its events: only this is to be asked of it. ret_id,
 * if the driver says it: what tells the context from one that may have its handle later. */
bool context_has_ended(const struct cuda *cuda, uint64_t context, uint64_t *ret_id);

/* Runs one call with `context` current and puts back what was current before. GPUMEM_E_NO_CONTEXT: it has ended. */
int context_run(const struct cuda *cuda, uint64_t context,
                int (*call)(const struct cuda *cuda, void *argument), void *argument);
