/* SPDX-License-Identifier: Apache-2.0 */
/* A reservation: memory of a pool that this client holds for later allocations. No other client has it meanwhile.
 *
 * Its blocks are pledged (heap_set_pledge): they stand on the idle list for every stream to have, and their leases are
 * busy. So an allocation takes them as it takes what is idle, without a message. They are one run, so that one allocation
 * may have all of it. Any thread; no lock is held. */
#pragma once

#include "client/blocks/pool_state.h"

/* Ends the reservation that there is; then there is one of n_bytes, or none with 0. What is idle in one run counts,
 * unless the rest must be waited for: then all that is idle is given back first, and nothing is held for it. Errors as
 * those of an allocation; GPUMEM_E_UNSUPPORTED: blocks of this pool are not put together. */
int pool_reserve(struct pool *pool, uint64_t n_bytes, uint32_t wait_ms);
