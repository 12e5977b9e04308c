/* SPDX-License-Identifier: Apache-2.0 */
/* A reservation: memory of a pool that this client holds for later allocations. No other client has it meanwhile.
 *
 * Its blocks are pledged (heap_set_pledge): they are on the idle list, for every stream, while their leases are busy.
 * So an allocation takes them without a message, as it takes idle blocks. They are one run, so that one allocation
 * may have all of it. Any thread; no lock is held. */
#pragma once

#include "client/blocks/pool_state.h"

/* Ends the present reservation, and makes one of n_bytes; 0: none. Idle blocks in one run are used for it. But if the
 * rest must be waited for, all idle blocks are returned first, so that nothing is held during the wait. Errors as
 * those of an allocation; GPUMEM_E_UNSUPPORTED: adjacent blocks of this pool cannot be joined. */
int pool_reserve(struct pool *pool, uint64_t n_bytes, uint32_t wait_ms);
