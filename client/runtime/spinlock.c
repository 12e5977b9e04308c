/* SPDX-License-Identifier: Apache-2.0 */
#include "client/runtime/spinlock.h"

#include <time.h>

#define N_SPINS      64
#define SLEEP_NS     1000
#define SLEEP_NS_MAX 100000

static void pause_a_moment(void)
{
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
}

void spin_wait(struct spinlock *lock)
{
        long sleep_ns = SLEEP_NS;

        for (;;) {
                uint32_t free = 0;

                for (unsigned i = 0; i < N_SPINS; i++) {
                        if (!atomic_load_explicit(&lock->taken, memory_order_relaxed))
                                break;
                        pause_a_moment();
                }
                if (atomic_compare_exchange_strong_explicit(
                            &lock->taken, &free, 1, memory_order_acquire, memory_order_relaxed))
                        return;
                (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = sleep_ns},
                                      NULL);
                if (sleep_ns < SLEEP_NS_MAX)
                        sleep_ns *= 2;
        }
}
