/* SPDX-License-Identifier: Apache-2.0 */
/* Making pinned memory known to the driver, apart from mapping it: later, for what was allocated without a context; and
 * undoing it in the context that it was done in, whichever is current. Any thread; no lock is held. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/mapping/mapping.h"

/* Registers pinned memory that is mapped there, in the current context. GPUMEM_E_NO_CONTEXT, or a fault of the driver,
 * which leaves nothing registered. */
int host_register_make(const struct memory *memory, uint64_t address, uint64_t n_bytes,
                       uint64_t *ret_context);

/* The context in which mapping_map would register now, or 0. */
uint64_t host_register_context(const struct memory *memory);

/* Blocks are registered where there is a context, and stay so until the application says. */
bool host_register_lasts(const struct memory *memory);

/* Whoever gets the block has it as registered as it can be. One that is not stays with those who asked for no more. */
bool host_register_is_settled(const struct memory *memory, enum mapping mapping);

/* Before what was registered in that context is unmapped. After a failure it must not be. */
int host_register_undo(const struct memory *memory, uint64_t context, uint64_t address,
                       uint64_t n_bytes);
