/* SPDX-License-Identifier: Apache-2.0 */
/* A lock for sections of a few dozen instructions, which two threads hardly ever want at once. Taking it is one
 * exchange, and releasing it a plain store: half of what a mutex costs. The price is that no thread is woken. A
 * thread that finds it taken looks again, and sleeps a little longer each time. So a preempted holder gets the
 * processor, whatever its priority. A holder must not do anything that can block. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/err.h"

struct spinlock {
        _Atomic uint32_t taken;
};

COLD void spin_wait(struct spinlock *lock);

static ALWAYS_INLINE void spin_lock(struct spinlock *lock)
{
        if (atomic_exchange_explicit(&lock->taken, 1, memory_order_acquire))
                spin_wait(lock);
}

static ALWAYS_INLINE void spin_unlock(struct spinlock *lock)
{
        atomic_store_explicit(&lock->taken, 0, memory_order_release);
}
