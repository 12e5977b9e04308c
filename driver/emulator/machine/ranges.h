/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a device's live ranges, as it lies in the control file that all processes map.
 *
 * Pure: it knows no files and no locks. The caller holds the control file's lock for every call. A process may be
 * killed between any two stores. So a range is live if and only if it is on the list, and one store puts it there or
 * takes it off. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define RANGES_MAX 4000

/* Placement is first fit. With sizes from 2 MiB to the whole capacity, first fit needs at most
 * capacity times log2 of the ratio of sizes, below 22 for 4 TiB: 64 times can never run short. */
#define RANGES_ADDRESS_FACTOR 64

enum { RANGE_RDMA_CAPABLE = 1, RANGE_EXPORTABLE = 2, RANGE_OFFERED = 4 };

struct range {
        uint64_t base;
        uint64_t n_bytes;
        uint64_t serial;         /* never reused: tells a range from a later one at its place */
        int64_t seen_dead_at_ms; /* 0: not seen without a lock */
        uint32_t n_holders;      /* processes' holds that were not released explicitly */
        uint32_t flags;
        uint32_t next; /* index + 1 of the next higher range, 0 = none */
        uint32_t taken;
        uint32_t pid; /* the process that made it */
        uint32_t reserved;
};

struct ranges {
        uint64_t magic;
        uint64_t capacity;
        uint64_t last_serial;
        uint32_t first; /* index + 1 */
        uint32_t reserved;
        struct range slots[RANGES_MAX];
};

void ranges_init(struct ranges *ranges, uint64_t capacity);
bool ranges_valid(const struct ranges *ranges, uint64_t capacity);

/* Finds the lowest gap that holds n_bytes. -ENOSPC. */
int ranges_find_gap(const struct ranges *ranges, uint64_t n_bytes, uint64_t *ret_base);

/* Makes a live range with one holder. -ENFILE: the table is full. */
int ranges_insert(struct ranges *ranges, uint64_t base, uint64_t n_bytes, uint32_t flags,
                  uint32_t pid, struct range **ret_range);

void ranges_remove(struct ranges *ranges, struct range *range);

/* Iterates in order of address: `range` NULL gives the first; returns NULL after the last. */
struct range *ranges_next(struct ranges *ranges, const struct range *range);

struct range *ranges_find(struct ranges *ranges, uint64_t base);
uint64_t ranges_used(struct ranges *ranges);
