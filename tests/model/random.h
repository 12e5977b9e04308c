/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that depend on a seed only, the same on every machine (splitmix64). */
#pragma once

#include <stdint.h>

struct random {
        uint64_t state;
};

static inline uint64_t random_next(struct random *random)
{
        uint64_t x = random->state += UINT64_C(0x9e3779b97f4a7c15);

        x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
        return x ^ x >> 31;
}

/* Below n, which is not 0. */
static inline uint64_t random_below(struct random *random, uint64_t n)
{
        return random_next(random) % n;
}
