/* SPDX-License-Identifier: Apache-2.0 */
/* Where allocations start: from the unit that one starts at to its extent. Pure; the owner locks.
 *
 * A table of 8 bytes an entry, open, at most a quarter full, or three quarters once it is large: nearly
 * every look-up ends at its first entries, and the processor foresees it. Entries stand in the order of
 * their hashes, so that growing reads and writes from one end to the other. */
#pragma once

#include <stdint.h>

#include "base/err.h"

struct alloc_table_entry {
        uint32_t unit;
        uint32_t extent; /* 0: nothing here */
};

struct alloc_table {
        struct alloc_table_entry *entries;
        uint32_t n_entries; /* used */
        uint32_t n_entries_max;
        unsigned n_bits; /* 2^n_bits places and some more behind them; 0: none yet */
};

/* All zero is empty and owns nothing. */
void alloc_table_deinit(struct alloc_table *table);

/* Room for one more. -ENOMEM. */
COLD int alloc_table_grow(struct alloc_table *table);

static inline int alloc_table_reserve(struct alloc_table *table)
{
        return __builtin_expect(table->n_entries < table->n_entries_max, 1)
                       ? 0
                       : alloc_table_grow(table);
}

/* One that is not there; there is room. */
void alloc_table_add(struct alloc_table *table, uint32_t unit, uint32_t extent);

/* 0: nothing starts there. */
uint32_t alloc_table_find(const struct alloc_table *table, uint32_t unit);

/* Takes it out: 0 if nothing starts there. */
uint32_t alloc_table_remove(struct alloc_table *table, uint32_t unit);
