/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes that the replay writes into an allocation and expects there: no other allocation has them, and
 * no other place of this one. Pure.
 *
 * An allocation of up to 64 KiB is one cell, written whole. Of a larger one, the first and the last 4 KiB
 * are written, and 64 bytes in each 64 KiB between. */
#pragma once

#include <stdint.h>

#include "base/size.h"

#define PATTERN_WHOLE_BYTES (64 * KIB)

struct cell {
        uint64_t offset;
        uint64_t n_bytes;
};

uint64_t pattern_n_cells(uint64_t n_bytes);
struct cell pattern_cell(uint64_t n_bytes, uint64_t index);

/* Writes the cell's bytes for allocation `tag`. */
void pattern_fill(uint64_t tag, struct cell cell, unsigned char *ret_bytes);

/* Counts the wrong bytes. */
uint64_t pattern_count_wrong(uint64_t tag, struct cell cell, const unsigned char *bytes);
