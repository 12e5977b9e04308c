/* SPDX-License-Identifier: Apache-2.0 */
/* The cold pattern: one pair of alloc and free of 1 MiB, after the program has written 32 MiB of its own. Each pair is
 * timed by itself. In a header, like pairs.h: the peers run the same code. One thread. */
#pragma once

#include <string.h>

#include "base/clock.h"
#include "base/size.h"
#include "bench/replace.h"
#include "bench/timing.h"

#define COLD_N_BYTES         MIB
#define COLD_N_WRITTEN_BYTES (32 * MIB)
#define COLD_N_PAIRS         15 /* in a repetition, which is their median */

struct cold {
        char *written;
};

static inline int cold_init(struct cold *cold)
{
        cold->written = (char *)malloc(COLD_N_WRITTEN_BYTES);
        return cold->written ? 0 : -ENOMEM;
}

static inline void cold_deinit(struct cold *cold)
{
        free(cold->written);
        cold->written = NULL;
}

static inline void cold_write(struct cold *cold, int value)
{
        memset(cold->written, value, COLD_N_WRITTEN_BYTES);
        /* Keeps the compiler from removing the writes. */
        __asm__ volatile("" : : "r"(cold->written) : "memory");
}

/* The clock's own code and data are fetched before the pair. */
REPLACE_INLINE int cold_pair(replace_alloc *alloc, replace_free *end, void *argument,
                             double *ret_ns)
{
        void *pointer = NULL;
        uint64_t start;
        int r;

        (void)clock_now_ns();
        start = clock_now_ns();
        r = alloc(argument, COLD_N_BYTES, &pointer);
        if (!r)
                r = end(argument, pointer);
        *ret_ns = (double)(clock_now_ns() - start);
        return r;
}

REPLACE_INLINE int cold_repetition(struct cold *cold, replace_alloc *alloc, replace_free *end,
                                   void *argument, double *ret_ns)
{
        double pairs[COLD_N_PAIRS];
        int r = 0;

        for (unsigned i = 0; i < COLD_N_PAIRS && !r; i++) {
                cold_write(cold, (int)i);
                r = cold_pair(alloc, end, argument, &pairs[i]);
        }
        if (!r)
                *ret_ns = median_of(pairs, COLD_N_PAIRS);
        return r;
}
