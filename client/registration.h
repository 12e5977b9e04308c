/* Making pinned memory known to the driver, apart from mapping it: later, for what was allocated
 * without a context; and undoing it in the context that it was done in, whichever is current. Any
 * thread; the pool's lock is not held during driver calls. */
#pragma once

#include "client/blocks.h"

/* Registers the block of the allocation at `pointer`, or of what was attached there, unless the driver
 * knows it already. Needs a current context. It must not be freed meanwhile. GPUMEM_E_NOT_OURS,
 * _BAD_REQUEST (device memory), _NO_CONTEXT, _NO_DRIVER, or a fault of the driver, which leaves
 * nothing registered. */
int registration_make(struct pool *pool, const void *pointer);

/* The context in which memory_map would register now, or 0. */
uint64_t registration_context(const struct pool *pool);

/* The pool's blocks are registered where there is a context, and stay so until the application says. */
bool registration_lasts(const struct pool *pool);

/* Whoever gets the block has it as registered as it can be. One that is not stays with those who asked for
 * no more. */
bool registration_is_settled(const struct pool *pool, const struct leased *leased);

/* Before a block is unmapped. After a failure it must not be. */
int registration_undo(const struct pool *pool, struct leased *leased);
