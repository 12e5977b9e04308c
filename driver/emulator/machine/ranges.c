/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/emulator/machine/ranges.h"

#include <errno.h>
#include <string.h>

#define RANGES_MAGIC UINT64_C(0x32656c6261746d67)

void ranges_init(struct ranges *ranges, uint64_t capacity)
{
        memset(ranges, 0, sizeof(*ranges));
        ranges->capacity = capacity;
        ranges->magic = RANGES_MAGIC;
}

bool ranges_valid(const struct ranges *ranges, uint64_t capacity)
{
        return ranges->magic == RANGES_MAGIC && ranges->capacity == capacity;
}

static struct range *range_at(struct ranges *ranges, uint32_t link)
{
        return link && link <= RANGES_MAX ? &ranges->slots[link - 1] : NULL;
}

struct range *ranges_next(struct ranges *ranges, const struct range *range)
{
        return range_at(ranges, range ? range->next : ranges->first);
}

int ranges_find_gap(const struct ranges *ranges, uint64_t n_bytes, uint64_t *ret_base)
{
        uint64_t end = ranges->capacity * RANGES_ADDRESS_FACTOR;
        uint64_t base = 0;

        for (uint32_t link = ranges->first; link; link = ranges->slots[link - 1].next) {
                const struct range *range = &ranges->slots[link - 1];

                if (range->base - base >= n_bytes)
                        break;
                base = range->base + range->n_bytes;
        }
        if (end - base < n_bytes)
                return -ENOSPC;
        *ret_base = base;
        return 0;
}

/* A process killed inside insert or remove leaves a slot taken that is not on the list. */
static void slots_recover(struct ranges *ranges)
{
        for (uint32_t i = 0; i < RANGES_MAX; i++)
                ranges->slots[i].taken = 0;
        for (struct range *range = ranges_next(ranges, NULL); range;
             range = ranges_next(ranges, range))
                range->taken = 1;
}

static struct range *slot_find(struct ranges *ranges)
{
        for (uint32_t i = 0; i < RANGES_MAX; i++)
                if (!ranges->slots[i].taken)
                        return &ranges->slots[i];
        return NULL;
}

/* The link that points to the first range at or above `base`. */
static uint32_t *link_before(struct ranges *ranges, uint64_t base)
{
        uint32_t *link = &ranges->first;

        while (*link && ranges->slots[*link - 1].base < base)
                link = &ranges->slots[*link - 1].next;
        return link;
}

int ranges_insert(struct ranges *ranges, uint64_t base, uint64_t n_bytes, uint32_t flags,
                  uint32_t pid, struct range **ret_range)
{
        struct range *range = slot_find(ranges);
        uint32_t *link = link_before(ranges, base);

        if (!range) {
                slots_recover(ranges);
                range = slot_find(ranges);
        }
        if (!range)
                return -ENFILE;
        *range = (struct range){.base = base,
                                .n_bytes = n_bytes,
                                .serial = ++ranges->last_serial,
                                .n_holders = 1,
                                .flags = flags,
                                .next = *link,
                                .taken = 1,
                                .pid = pid};
        __atomic_store_n(link, (uint32_t)(range - ranges->slots) + 1, __ATOMIC_RELEASE);
        *ret_range = range;
        return 0;
}

void ranges_remove(struct ranges *ranges, struct range *range)
{
        uint32_t *link = link_before(ranges, range->base);

        __atomic_store_n(link, range->next, __ATOMIC_RELEASE);
        range->taken = 0;
}

struct range *ranges_find(struct ranges *ranges, uint64_t base)
{
        struct range *range = range_at(ranges, *link_before(ranges, base));

        return range && range->base == base ? range : NULL;
}

uint64_t ranges_used(struct ranges *ranges)
{
        uint64_t used = 0;

        for (struct range *range = ranges_next(ranges, NULL); range;
             range = ranges_next(ranges, range))
                used += range->n_bytes;
        return used;
}
