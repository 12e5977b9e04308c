/* SPDX-License-Identifier: Apache-2.0 */
/* The time since some fixed moment, by CLOCK_MONOTONIC: what deadlines and durations are made of, which no
 * setting of the machine's clock moves. Any thread; code that is pure takes times as arguments instead. */
#pragma once

#include <errno.h>
#include <stdint.h>
#include <time.h>

#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S  UINT64_C(1000000000)

static inline struct timespec clock_now(void)
{
        struct timespec now;

        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        return now;
}

static inline uint64_t clock_now_ns(void)
{
        struct timespec now = clock_now();

        return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* CPU time of the calling thread. Slow: a system call. */
static inline uint64_t clock_thread_cpu_ns(void)
{
        struct timespec now;

        (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline uint64_t clock_now_us(void)
{
        return clock_now_ns() / 1000;
}

static inline uint64_t clock_now_ms(void)
{
        return clock_now_ns() / 1000000;
}

/* The moment so far ahead: what a timed wait by this clock takes. */
static inline struct timespec clock_after_ms(uint64_t n_ms)
{
        uint64_t ns = clock_now_ns() + n_ms * 1000000;

        return (struct timespec){.tv_sec = (time_t)(ns / 1000000000),
                                 .tv_nsec = (long)(ns % 1000000000)};
}

static inline void clock_sleep_us(uint64_t n_us)
{
        struct timespec left = {.tv_sec = (time_t)(n_us / 1000000),
                                .tv_nsec = (long)(n_us % 1000000) * 1000};

        while (n_us && nanosleep(&left, &left) < 0 && errno == EINTR)
                ;
}
