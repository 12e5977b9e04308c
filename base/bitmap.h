/* SPDX-License-Identifier: Apache-2.0 */
/* A bitmap of one bit a size class, with a summary word above it, so that "the next class that
 * holds something" costs two bit scans. Pure; the owner locks. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/size.h"

#define BITMAP_WORDS ((SIZE_N_CLASSES + 63) / 64)

struct bitmap {
        uint64_t summary; /* bit w: words[w] is not 0 */
        uint64_t words[BITMAP_WORDS];
};

#define BITMAP_NULL ((struct bitmap){0})

static inline void bitmap_set(struct bitmap *map, unsigned bit)
{
        map->words[bit / 64] |= UINT64_C(1) << (bit % 64);
        map->summary |= UINT64_C(1) << (bit / 64);
}

static inline void bitmap_clear(struct bitmap *map, unsigned bit)
{
        map->words[bit / 64] &= ~(UINT64_C(1) << (bit % 64));
        if (!map->words[bit / 64])
                map->summary &= ~(UINT64_C(1) << (bit / 64));
}

static inline bool bitmap_test(const struct bitmap *map, unsigned bit)
{
        return map->words[bit / 64] >> (bit % 64) & 1;
}

/* The lowest set bit at or above `from`, or -1. */
static inline int bitmap_next(const struct bitmap *map, unsigned from)
{
        unsigned word = from / 64;
        uint64_t bits;

        if (from >= SIZE_N_CLASSES)
                return -1;
        bits = map->words[word] & (~UINT64_C(0) << (from % 64));
        if (!bits) {
                uint64_t above = word == 63 ? 0 : map->summary & (~UINT64_C(0) << (word + 1));

                if (!above)
                        return -1;
                word = (unsigned)__builtin_ctzll(above);
                bits = map->words[word];
        }
        return (int)(word * 64 + (unsigned)__builtin_ctzll(bits));
}

/* For checks of what embeds the map: the summary tells the truth about the words. */
static inline bool bitmap_is_sound(const struct bitmap *map)
{
        uint64_t summary = 0;

        for (unsigned word = 0; word < BITMAP_WORDS; word++)
                summary |= (uint64_t)(map->words[word] != 0) << word;
        return summary == map->summary;
}
