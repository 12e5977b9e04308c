/* A lock for a few dozen instructions that hardly ever two threads want at once: taking it is one
 * exchange, letting go of it a plain store, which is half of what a mutex costs. The price is
 * that nobody is woken: who finds it taken looks again, and sleeps a little longer each time, so that
 * a holder that was preempted gets the processor whatever its priority. Nothing that can block is
 * done while it is held. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/err.h"

struct lock {
        _Atomic uint32_t taken;
};

COLD void lock_wait(struct lock *lock);

static inline void lock_take(struct lock *lock)
{
        if (atomic_exchange_explicit(&lock->taken, 1, memory_order_acquire))
                lock_wait(lock);
}

static inline void lock_drop(struct lock *lock)
{
        atomic_store_explicit(&lock->taken, 0, memory_order_release);
}
