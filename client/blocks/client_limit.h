/* SPDX-License-Identifier: Apache-2.0 */
/* The process's own limits: how much of a pool it leases at most, checked before a request to the daemon.
 *
 * A block counts from the request on. A cached block may be an eighth larger than requested; it is accepted, and
 * counted with its real size. Any thread; the pool's lock guards the numbers. */
#pragma once

#include <stdint.h>

#include "client/blocks/pool_state.h"

/* The part of each device's memory that GPUMEM_MEMORY_FRACTION allows; 1: it is not set. GPUMEM_E_BAD_FRACTION: it is
 * not a number above 0 and at most 1. */
int client_limit_read_fraction(double *ret_fraction);

/* That part of so many bytes. */
uint64_t client_limit_of_fraction(double fraction, uint64_t n_bytes);

/* Called before a block is requested. GPUMEM_E_LIMIT; last_error.h then has the reason. */
int client_limit_take(struct pool *pool, uint64_t n_bytes);

/* The block has n_bytes instead of the n_asked_bytes that were requested. */
void client_limit_correct(struct pool *pool, uint64_t n_asked_bytes, uint64_t n_bytes);

/* The block was returned, or never came. */
void client_limit_give(struct pool *pool, uint64_t n_bytes);

void client_limit_set(struct pool *pool, uint64_t n_max_bytes);
