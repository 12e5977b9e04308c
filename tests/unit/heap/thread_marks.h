/* SPDX-License-Identifier: Apache-2.0 */
/* Whose a unit of memory is, for threads that allocate beside each other: each marks what it has. Any
 * thread; Check's own asserts are not for threads, so what is wrong is counted. */
#pragma once

#include <stdbool.h>

#include "client/heap/heap.h"

#define START      (UINT64_C(1) << 44)
#define N_GRANULES 256

extern _Atomic unsigned n_wrong;

void expect(bool right);

/* From free, 0, to taken, 1, or back. */
void mark(uint64_t address, uint64_t n_bytes, uint8_t from, uint8_t to);

/* No thread has any of the block. */
void expect_unmarked(const struct heap_block *block);
