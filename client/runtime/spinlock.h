/* SPDX-License-Identifier: Apache-2.0 */
/* A lock for a few dozen instructions that hardly ever two threads want at once: taking it is one exchange, letting go
 * of it a plain store, which is half of what a mutex costs. The price is that no thread is woken: one that finds it
 * taken looks again, and sleeps a little longer each time, so that a holder that was preempted gets the processor
 * whatever its priority. Nothing that can block is done while it is held. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/err.h"

struct spinlock {
        _Atomic uint32_t taken;
};

COLD void spin_wait(struct spinlock *lock);

static inline void spin_lock(struct spinlock *lock)
{
        if (atomic_exchange_explicit(&lock->taken, 1, memory_order_acquire))
                spin_wait(lock);
}

static inline void spin_unlock(struct spinlock *lock)
{
        atomic_store_explicit(&lock->taken, 0, memory_order_release);
}
