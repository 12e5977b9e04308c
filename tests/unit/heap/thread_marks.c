/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/heap/thread_marks.h"

#define MARK_STRIDE 64

_Atomic unsigned n_wrong;

static _Atomic uint8_t marks[N_GRANULES * (HEAP_BLOCK_UNIT / HEAP_UNIT)];

void expect(bool right)
{
        if (!right)
                n_wrong++;
}

/* The first unit, the last one, and some in between. */
void mark(uint64_t address, uint64_t n_bytes, uint8_t from, uint8_t to)
{
        uint64_t first = (address - START) / HEAP_UNIT;
        uint64_t n = heap_round_up(n_bytes) / HEAP_UNIT;

        for (uint64_t i = 0; i < n; i += MARK_STRIDE)
                expect(atomic_exchange(&marks[first + i], to) == from);
        if ((n - 1) % MARK_STRIDE)
                expect(atomic_exchange(&marks[first + n - 1], to) == from);
}

void expect_unmarked(const struct heap_block *block)
{
        for (uint64_t i = 0; i < block->at.n_bytes / HEAP_UNIT; i += MARK_STRIDE)
                expect(!marks[(block->at.start - START) / HEAP_UNIT + i]);
}
