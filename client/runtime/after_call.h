/* SPDX-License-Identifier: Apache-2.0 */
/* The work that the end of a public call still has to do, counted in one number. A call with nothing to do reads one
 * word. The number counts event kinds to deliver (events.h), rounds that are owed (streams.h), stream uses that are
 * not marked yet (deferred_frees.h), and pools with frees that are not recorded (idle_marking.h). Any thread. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct after_call {
        _Atomic uint32_t n;
};

static inline void after_call_add(struct after_call *after_call, uint32_t n)
{
        atomic_fetch_add(&after_call->n, n);
}

static inline void after_call_sub(struct after_call *after_call, uint32_t n)
{
        atomic_fetch_sub(&after_call->n, n);
}

static inline bool after_call_is_any(const struct after_call *after_call)
{
        return atomic_load_explicit(&after_call->n, memory_order_relaxed) != 0;
}
