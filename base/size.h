/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes in bytes: units, rounding, size classes, and their text for people. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)

/* Longest text of size_format with its NUL. */
#define SIZE_TEXT_MAX 24

/* Classes are log-linear: eight steps a doubling, so a class is at most 12.5 % wide. */
#define SIZE_CLASS_STEPS 8
#define SIZE_N_CLASSES   496

static inline uint64_t size_smaller(uint64_t a, uint64_t b)
{
        return a < b ? a : b;
}

static inline uint64_t size_larger(uint64_t a, uint64_t b)
{
        return a > b ? a : b;
}

/* Rounds up to a multiple of `unit`, a power of two. -EOVERFLOW if that does not fit. */
int size_round_up(uint64_t n_bytes, uint64_t unit, uint64_t *ret_rounded);

/* The class that holds `n`: the largest one whose floor is not above it. */
unsigned size_class(uint64_t n);

/* Text such as "512 B", "64.00 MiB", "1.50 GiB". */
const char *size_format(uint64_t n_bytes, char text[static SIZE_TEXT_MAX]);

/* Reads "4096", "512KiB", "64 MiB", "1.5GiB", "2T": units are powers of 1024, B and iB are
 * optional, case does not matter; at most nine digits after a point, and rounded down to bytes.
 * -EINVAL for anything else, -ERANGE beyond 64 bits. */
int size_parse(const char *text, uint64_t *ret_bytes);
