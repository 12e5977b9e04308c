/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts, named by the value of their handle. Any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "driver/cuda.h"

/* The calling thread's context; GPUMEM_E_NO_CONTEXT: it has none. */
int context_current(const struct cuda *cuda, uint64_t *ret_context);

/* The ordinal of that context's device; GPUMEM_E_NO_CONTEXT. */
int context_device(const struct cuda *cuda, int *ret_ordinal);

/* Retains or releases the device's primary context. */
int context_retain_primary(const struct cuda *cuda, int ordinal, uint64_t *ret_context);
int context_release_primary(const struct cuda *cuda, int ordinal);

/* Retains the device's primary context until the process ends, and makes it current in the calling thread. */
int context_make_own(const struct cuda *cuda, int ordinal);

/* Has the context ended? A driver may crash in other calls for a context that has ended, or for its events. ret_id,
 * if the driver tells it: differs between contexts that have the same handle one after another. */
bool context_has_ended(const struct cuda *cuda, uint64_t context, uint64_t *ret_id);

/* Runs one call with `context` current, and restores the previous context. GPUMEM_E_NO_CONTEXT: it has ended. */
int context_run(const struct cuda *cuda, uint64_t context,
                int (*call)(const struct cuda *cuda, void *argument), void *argument);
