/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of addresses that do not overlap, in order: reservations, mappings, registrations. The objects embed `struct
 * interval` as their first member; the table owns none of them. Pure; the caller locks. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct interval {
        uint64_t base;
        uint64_t n_bytes;
};

struct intervals {
        struct interval **items;
        size_t n;
        size_t room;
};

/* -EEXIST: it overlaps another interval. -ENOMEM. */
int intervals_insert(struct intervals *intervals, struct interval *interval);

void intervals_remove(struct intervals *intervals, const struct interval *interval);

/* The lowest interval that has a byte in [base, base + n_bytes), or NULL. */
struct interval *intervals_first_in(const struct intervals *intervals, uint64_t base,
                                    uint64_t n_bytes);

/* The interval that holds the address, or NULL. */
struct interval *intervals_find(const struct intervals *intervals, uint64_t address);

static inline uint64_t interval_end(const struct interval *interval)
{
        return interval->base + interval->n_bytes;
}
