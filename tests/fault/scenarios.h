/* SPDX-License-Identifier: Apache-2.0 */
/* What a program does with gpumem, from its first call to its last: each is to be run while calls fail. It
 * ends with nothing held, whatever failed. */
#pragma once

#include "tests/demo/gpu.h"

struct scenario {
        const char *name;
        /* 0, or what the first call that failed gave; -EBADMSG: a byte was wrong. */
        int (*run)(struct gpu *gpu);
        const char *cache_size; /* GPUMEM_CACHE_SIZE; NULL: the default */
        const char *configuration;
        enum { SCENARIO_ON_DEVICE, SCENARIO_SIGNALS_DAEMON } kind;
};

extern const struct scenario scenarios[];
extern const unsigned n_scenarios;

/* How long a scenario waits for memory. */
extern unsigned scenario_wait_ms;

/* The process that a scenario sends signals to. */
extern int scenario_daemon;
