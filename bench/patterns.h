/* SPDX-License-Identifier: Apache-2.0 */
/* Traces that are made up: programs whose free extents have the right sum, and none the right length, or that leave
 * small allocations behind. The same seed makes the same trace. Pure. */
#pragma once

#include <stdint.h>

#include "bench/trace.h"

enum pattern {
        PATTERN_DOUBLING,  /* tensors that grow, each time to twice their size */
        PATTERN_GROWTH,    /* the same, to 1.5 times */
        PATTERN_LIFETIMES, /* nine of ten allocations live for a short time, one for a long time */
        PATTERN_PLUS_ONE,  /* sizes of a power of two, plus one byte */
        PATTERN_SURVIVORS, /* rises and falls, of which one small allocation in 12 MiB is left */
        PATTERN_BURSTS,    /* large tensors come and go, small allocations in between stay */
        PATTERN_N,
};

const char *pattern_name(enum pattern pattern);

/* The caller ends it by trace_deinit. -ENOMEM. */
int pattern_make(enum pattern pattern, uint64_t seed, struct trace *ret_trace);
