/* SPDX-License-Identifier: Apache-2.0 */
/* Registers pinned memory with the driver, separately from mapping it: later, for memory that was allocated without a
 * context. Unregisters it in the context in which it was registered, whichever is current. Any thread; no lock is
 * held. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/mapping/mapping.h"

/* Registers the pinned memory that is mapped at the address, in the current context. GPUMEM_E_NO_CONTEXT, or a fault
 * of the driver, which leaves nothing registered. */
int host_register_make(const struct memory *memory, uint64_t address, uint64_t n_bytes,
                       uint64_t *ret_context);

/* The context in which mapping_map would register now, or 0. */
uint64_t host_register_context(const struct memory *memory);

/* Are blocks of this memory registered, given a context, and kept so until the application says otherwise? */
bool host_register_lasts(const struct memory *memory);

/* Is the block registered, or of memory that is never registered? Only such a block may be marked idle, so that every
 * later user gets it as registered as it can be. */
bool host_register_is_settled(const struct memory *memory, enum mapping mapping);

/* The id that the driver gives the context now; 0: it tells none, or context is 0. */
uint64_t host_register_id(const struct memory *memory, uint64_t context);

/* Has the context ended in which memory was registered? It took its registrations with it. `id` is the one of that time:
 * after a reset of the device another context has the handle. 0, or the handle itself: it was not told. */
bool host_register_is_over(const struct memory *memory, uint64_t context, uint64_t id);

/* Unregisters memory of that context before it is unmapped. After a failure it must not be unmapped. */
int host_register_undo(const struct memory *memory, uint64_t context, uint64_t id, uint64_t address,
                       uint64_t n_bytes);
