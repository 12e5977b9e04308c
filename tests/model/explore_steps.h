/* SPDX-License-Identifier: Apache-2.0 */
/* Put before the daemon's code that is explored: between a look at a word and the step that follows
 * from it, which are two, the client may make a step of its own. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

bool explore_daemon_step(_Atomic uint64_t *word, uint64_t *expected, uint64_t desired);

#undef atomic_compare_exchange_strong_explicit
#define atomic_compare_exchange_strong_explicit(word, expected, desired, success, failure) \
        explore_daemon_step((word), (expected), (desired))
