/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers for tests, the same in every run: the seed is printed, and taken from
 * GPUMEM_TEST_SEED; the number of steps is taken from GPUMEM_TEST_STEPS. One thread. */
#pragma once

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define TEST_SEED    UINT64_C(20240229)
#define TEST_N_STEPS UINT64_C(100000)

struct test_random {
        uint64_t state;
};

static inline uint64_t test_number_from_environment(const char *name, uint64_t otherwise)
{
        const char *text = getenv(name);

        return text ? strtoull(text, NULL, 0) : otherwise;
}

static inline struct test_random test_random_begin(void)
{
        uint64_t seed = test_number_from_environment("GPUMEM_TEST_SEED", TEST_SEED);

        (void)printf("# GPUMEM_TEST_SEED=%" PRIu64 "\n", seed);
        (void)fflush(stdout);
        return (struct test_random){.state = seed};
}

static inline uint64_t test_n_steps(void)
{
        return test_number_from_environment("GPUMEM_TEST_STEPS", TEST_N_STEPS);
}

/* SplitMix64. */
static inline uint64_t test_random_next(struct test_random *random)
{
        uint64_t z = random->state += UINT64_C(0x9e3779b97f4a7c15);

        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        return z ^ z >> 31;
}

/* 0 to below - 1. */
static inline uint64_t test_random_below(struct test_random *random, uint64_t below)
{
        return test_random_next(random) % below;
}

/* 1 to max, every power of two as likely as any other. */
static inline uint64_t test_random_size(struct test_random *random, uint64_t max)
{
        unsigned n_bits = 64u - (unsigned)__builtin_clzll(max);
        uint64_t floor = UINT64_C(1) << test_random_below(random, n_bits);
        uint64_t size = floor + test_random_below(random, floor);

        return size < max ? size : max;
}
