/* SPDX-License-Identifier: Apache-2.0 */
/* Switches for what the library does besides allocating and freeing, on request of the environment or of the program.
 * One word holds them all: while none is on, a call pays for one test of it. Any thread. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

enum {
        SWITCH_TRACE = 1, /* GPUMEM_TRACE */
        SWITCH_DEBUG = 2, /* GPUMEM_DEBUG; debug_is_on tells for which clients */
        SWITCH_TAGS = 4,  /* gpumem_set_tag, of any client */
};

extern _Atomic unsigned switches;

static inline bool switches_any(void)
{
        return __builtin_expect(atomic_load_explicit(&switches, memory_order_relaxed) != 0, false);
}

static inline bool switch_is_on(unsigned which)
{
        return (atomic_load_explicit(&switches, memory_order_relaxed) & which) != 0;
}

static inline void switch_on(unsigned which)
{
        (void)atomic_fetch_or(&switches, which);
}

static inline void switch_off(unsigned which)
{
        (void)atomic_fetch_and(&switches, ~which);
}
