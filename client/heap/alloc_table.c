/* SPDX-License-Identifier: Apache-2.0 */
#include "client/heap/alloc_table.h"

/* Wrong bookkeeping would allocate the same bytes twice, so these asserts stay in every build. */
#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/pages.h"

#define FIRST_BITS 8
#define MAX_BITS   31

/* 2 MiB. */
#define LARGE_BITS 18

/* Fibonacci hashing: neighbours in memory fall far apart. The table is sorted by the product. */
static uint32_t product(uint32_t unit)
{
        return unit * UINT32_C(0x9e3779b1);
}

static uint32_t place_of(const struct alloc_table *table, uint32_t unit)
{
        return product(unit) >> (32 - table->n_bits);
}

/* A table that fits a core's own caches is kept sparse, so that look-ups end at once. In a larger one, touching fewer
 * cache lines is worth more. */
static uint32_t n_entries_max(unsigned n_bits)
{
        assert(n_bits >= FIRST_BITS);
        return (n_bits < LARGE_BITS ? UINT32_C(1) : UINT32_C(3)) << (n_bits - 2);
}

/* Entries never wrap around to the front: behind the last place there is room for the longest chain. */
static size_t n_places(unsigned n_bits)
{
        return ((size_t)1 << n_bits) + n_entries_max(n_bits) + 1;
}

void alloc_table_deinit(struct alloc_table *table)
{
        free(table->entries);
        *table = (struct alloc_table){.entries = NULL};
}

/* The entries are sorted already, so each goes behind the last one. */
static void copy(struct alloc_table *to, const struct alloc_table *from)
{
        size_t next = 0;

        for (size_t i = 0; i < n_places(from->n_bits); i++) {
                size_t place;

                if (!from->entries[i].extent)
                        continue;
                place = place_of(to, from->entries[i].unit);
                if (place < next)
                        place = next;
                to->entries[place] = from->entries[i];
                next = place + 1;
        }
        to->n_entries = from->n_entries;
}

int alloc_table_grow(struct alloc_table *table)
{
        struct alloc_table larger = {.n_bits = table->n_bits ? table->n_bits + 1 : FIRST_BITS};

        if (larger.n_bits > MAX_BITS)
                return -ENOMEM;
        larger.n_entries_max = n_entries_max(larger.n_bits);
        larger.entries = calloc(n_places(larger.n_bits), sizeof(*larger.entries));
        if (!larger.entries)
                return -ENOMEM;
        pages_wish_large(larger.entries, n_places(larger.n_bits) * sizeof(*larger.entries));
        if (table->n_bits)
                copy(&larger, table);
        free(table->entries);
        *table = larger;
        return 0;
}

/* Moves an entry and those that follow it one place on. */
static NOINLINE void push_on(struct alloc_table_entry *entry)
{
        struct alloc_table_entry moved = *entry;

        while (moved.extent) {
                struct alloc_table_entry next = *++entry;

                *entry = moved;
                moved = next;
        }
}

/* Entries with equal places are sorted by the product, so that the whole table is. */
void alloc_table_add(struct alloc_table *table, uint32_t unit, uint32_t extent)
{
        struct alloc_table_entry *entry = &table->entries[place_of(table, unit)];

        assert(extent);
        while (entry->extent && product(entry->unit) < product(unit))
                entry++;
        if (entry->extent)
                push_on(entry);
        *entry = (struct alloc_table_entry){unit, extent};
        table->n_entries++;
}

static struct alloc_table_entry *find(const struct alloc_table *table, uint32_t unit)
{
        struct alloc_table_entry *entry;

        if (!table->n_bits)
                return NULL;
        for (entry = &table->entries[place_of(table, unit)]; entry->extent; entry++) {
                if (entry->unit == unit)
                        return entry;
        }
        return NULL;
}

uint32_t alloc_table_find(const struct alloc_table *table, uint32_t unit)
{
        const struct alloc_table_entry *entry = find(table, unit);

        return entry ? entry->extent : 0;
}

uint32_t alloc_table_remove(struct alloc_table *table, uint32_t unit)
{
        struct alloc_table_entry *entry = find(table, unit);
        uint32_t extent;

        if (!entry)
                return 0;
        extent = entry->extent;
        /* Entries behind it move up, unless they stand where they belong. */
        for (; entry[1].extent &&
               place_of(table, entry[1].unit) < (uint32_t)(entry + 1 - table->entries);
             entry++)
                entry[0] = entry[1];
        entry->extent = 0;
        table->n_entries--;
        return extent;
}
