/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses of a pool: one range for its arena, and more where the system had few at first. Any thread. */
#pragma once

#include "client/blocks/pool_state.h"

/* The pool has an arena from now on. Where the system has few addresses then, the arena is short: addresses_widen
 * gives it more at a later allocation that finds no place. Where there are none, that allocation fails, and the next
 * one tries again. The caller has the lock. */
int addresses_open(struct pool *pool);

/* A request of so many bytes found no place in the arena. True: there are more addresses now, as many as it takes and
 * as a pool has; the first ones stay where they are, since blocks stand there. False: there are no more to be had, or
 * the pool has all that it is to have. The caller has the lock. */
bool addresses_widen(struct pool *pool, uint64_t n_bytes);

/* Gives the addresses up; no block stands there. */
void addresses_close(struct pool *pool);
