/* Where allocations start: from the unit that one starts at to its extent. Pure; the owner locks.
 *
 * A table of 8 bytes an entry, open, at most a quarter full, or three quarters once it is large: nearly
 * every look-up ends at its first entries, and the processor foresees it. Entries stand in the order of
 * their hashes, so that growing reads and writes from one end to the other. */
#pragma once

#include <stdint.h>

#include "base/err.h"

struct start {
        uint32_t unit;
        uint32_t extent; /* 0: nothing here */
};

struct starts {
        struct start *entries;
        uint32_t n_entries; /* used */
        uint32_t n_entries_max;
        unsigned n_bits; /* 2^n_bits places and some more behind them; 0: none yet */
};

/* All zero is empty and owns nothing. */
void starts_deinit(struct starts *starts);

/* Room for one more. -ENOMEM. */
COLD int starts_grow(struct starts *starts);

static inline int starts_reserve(struct starts *starts)
{
        return __builtin_expect(starts->n_entries < starts->n_entries_max, 1) ? 0
                                                                              : starts_grow(starts);
}

/* One that is not there; there is room. */
void starts_add(struct starts *starts, uint32_t unit, uint32_t extent);

/* 0: nothing starts there. */
uint32_t starts_find(const struct starts *starts, uint32_t unit);

/* Takes it out: 0 if nothing starts there. */
uint32_t starts_remove(struct starts *starts, uint32_t unit);
