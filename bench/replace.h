/* SPDX-License-Identifier: Apache-2.0 */
/* The random pattern: a number of live allocations, one of which, chosen at random, is replaced by another
 * of a random size. In a header, so that each allocator's calls are compiled into the loop: calls through
 * pointers would falsify a peer that takes 5 ns. In C that is also C++. One thread. */
#pragma once

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

/* Sizes are drawn in advance, since drawing takes longer than allocating. A power of two. */
#define REPLACE_N_SIZES 1024

struct replace {
        void **live;
        uint32_t n_live;
        uint64_t random;
        uint32_t sizes[REPLACE_N_SIZES];
};

enum replace_sizes {
        REPLACE_WIDE,  /* log-uniform, 512 B to 64 MiB */
        REPLACE_SMALL, /* 1 to 16 times 512 B, so that a million take at most 4 GiB */
        REPLACE_64KIB, /* 1 to 255 times 512 B: 64 KiB on average */
};

/* xorshift64: the same numbers in every run. */
static inline uint64_t replace_draw(struct replace *replace)
{
        uint64_t x = replace->random;

        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        return replace->random = x;
}

static inline uint32_t replace_draw_size(struct replace *replace, enum replace_sizes sizes)
{
        double random = (double)(replace_draw(replace) >> 11) / (double)(UINT64_C(1) << 53);

        switch (sizes) {
        case REPLACE_WIDE:
                return (uint32_t)(512 * exp2(random * 17));
        case REPLACE_SMALL:
                return 512 * (1 + (uint32_t)(random * 16));
        case REPLACE_64KIB:
                return 512 * (1 + (uint32_t)(random * 255));
        }
        return 0;
}

/* Divides sizes by `divisor`, since host allocators are asked for less. */
static inline int replace_init(struct replace *replace, uint32_t n_live, enum replace_sizes sizes,
                               uint32_t divisor)
{
        replace->n_live = n_live;
        replace->random = 88172645463325252u;
        replace->live = (void **)calloc(n_live, sizeof(*replace->live));
        if (!replace->live)
                return -ENOMEM;
        for (unsigned i = 0; i < REPLACE_N_SIZES; i++) {
                uint32_t n_bytes = replace_draw_size(replace, sizes) / divisor;

                replace->sizes[i] = n_bytes ? n_bytes : 1;
        }
        return 0;
}

static inline void replace_deinit(struct replace *replace)
{
        free(replace->live);
        replace->live = NULL;
}

typedef int replace_alloc(void *argument, uint64_t n_bytes, void **ret_pointer);
typedef int replace_free(void *argument, void *pointer);

#define REPLACE_INLINE static inline __attribute__((always_inline))

REPLACE_INLINE uint64_t replace_next_size(struct replace *replace)
{
        return replace->sizes[replace_draw(replace) >> 32 & (REPLACE_N_SIZES - 1)];
}

REPLACE_INLINE int replace_fill(struct replace *replace, replace_alloc *alloc, void *argument)
{
        int r = 0;

        for (uint32_t i = 0; i < replace->n_live && !r; i++)
                r = alloc(argument, replace_next_size(replace), &replace->live[i]);
        return r;
}

REPLACE_INLINE int replace_empty(struct replace *replace, replace_free *end, void *argument)
{
        int r = 0;

        for (uint32_t i = 0; i < replace->n_live && !r; i++)
                r = end(argument, replace->live[i]);
        return r;
}

REPLACE_INLINE uint32_t replace_slot(const struct replace *replace, uint64_t random)
{
        return (uint32_t)((random >> 32) * replace->n_live >> 32);
}

/* Prefetches the pointers of the next steps. A million of them fit into no cache, and waiting for them is a
 * cost of the pattern, the same for every allocator. */
#define REPLACE_N_AHEAD 8

REPLACE_INLINE uint64_t replace_look_ahead(struct replace *replace)
{
        uint64_t random = replace_draw(replace);

        __builtin_prefetch(&replace->live[replace_slot(replace, random)]);
        return random;
}

REPLACE_INLINE int replace_steps(struct replace *replace, unsigned n_steps, replace_alloc *alloc,
                                 replace_free *end, void *argument)
{
        uint64_t ahead[REPLACE_N_AHEAD];
        int r = 0;

        for (unsigned i = 0; i < REPLACE_N_AHEAD; i++)
                ahead[i] = replace_look_ahead(replace);
        for (unsigned i = 0; i < n_steps && !r; i++) {
                uint64_t random = ahead[i % REPLACE_N_AHEAD];
                void **slot = &replace->live[replace_slot(replace, random)];

                ahead[i % REPLACE_N_AHEAD] = replace_look_ahead(replace);
                r = end(argument, *slot);
                if (!r)
                        r = alloc(argument, replace->sizes[random & (REPLACE_N_SIZES - 1)], slot);
        }
        return r;
}
