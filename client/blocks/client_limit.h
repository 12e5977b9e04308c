/* SPDX-License-Identifier: Apache-2.0 */
/* The process's own limits: how much of a pool it leases at most, checked before the daemon is asked.
 *
 * Counted is every block from the request on. A cached block may be an eighth larger than what was asked for; it is let
 * in, and counted with its real size. Any thread; the pool's lock guards the numbers. */
#pragma once

#include <stdint.h>

#include "client/blocks/pool_state.h"

/* The part of each device's memory that GPUMEM_MEMORY_FRACTION allows; 1 when it is not set. GPUMEM_E_BAD_FRACTION: it
 * is no number above 0, and 1 at most. */
int client_limit_read_fraction(double *ret_fraction);

/* That part of so many bytes. */
uint64_t client_limit_of_fraction(double fraction, uint64_t n_bytes);

/* Before a block is asked for. GPUMEM_E_LIMIT; last_error.h then has the reason. */
int client_limit_take(struct pool *pool, uint64_t n_bytes);

/* The block turned out to have another size. */
void client_limit_correct(struct pool *pool, uint64_t n_asked_bytes, uint64_t n_bytes);

/* It has gone back, or never came. */
void client_limit_give(struct pool *pool, uint64_t n_bytes);

void client_limit_set(struct pool *pool, uint64_t n_max_bytes);
