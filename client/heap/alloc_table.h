/* SPDX-License-Identifier: Apache-2.0 */
/* Maps the unit that an allocation starts at to its extent. Pure; the owner locks.
 *
 * An open hash table, 8 bytes an entry. It is at most a quarter full, or three quarters once it is large: nearly
 * every look-up ends at its first entry, as the processor predicts. Entries are sorted by their hashes, so that
 * growing reads and writes memory from one end to the other. */
#pragma once

#include <stdint.h>

#include "base/err.h"

struct alloc_table_entry {
        uint32_t unit;
        uint32_t extent; /* 0: no entry */
};

struct alloc_table {
        struct alloc_table_entry *entries;
        uint32_t n_entries; /* used */
        uint32_t n_entries_max;
        unsigned n_bits; /* 2^n_bits places, and some more behind them; 0: no table yet */
};

/* A zeroed table is empty and owns nothing. */
void alloc_table_deinit(struct alloc_table *table);

/* Makes room for one more entry. -ENOMEM. */
COLD int alloc_table_grow(struct alloc_table *table);

static inline int alloc_table_reserve(struct alloc_table *table)
{
        return __builtin_expect(table->n_entries < table->n_entries_max, 1)
                       ? 0
                       : alloc_table_grow(table);
}

/* Adds an entry that is not there yet; the caller has reserved room. */
void alloc_table_add(struct alloc_table *table, uint32_t unit, uint32_t extent);

/* 0: nothing starts there. */
uint32_t alloc_table_find(const struct alloc_table *table, uint32_t unit);

/* Removes the entry and returns its extent; 0: nothing starts there. */
uint32_t alloc_table_remove(struct alloc_table *table, uint32_t unit);
