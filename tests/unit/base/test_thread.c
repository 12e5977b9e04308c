/* SPDX-License-Identifier: Apache-2.0 */
/* thread: what a thread asks of the kernel's scheduler. */
#include "base/thread.h"

#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/suite.h"

/* Offset of the slice in what sched_getattr tells. */
enum { SLICE = 24, N_BYTES = 48 };

static uint64_t slice_ns(void)
{
        uint64_t attributes[N_BYTES / sizeof(uint64_t)];

        ck_assert_int_eq(syscall(SYS_sched_getattr, 0, attributes, N_BYTES, 0), 0);
        return attributes[SLICE / sizeof(uint64_t)];
}

static uint64_t before_ns, since_ns;

static void *run(void *argument)
{
        before_ns = slice_ns();
        thread_prefer_soon();
        since_ns = slice_ns();
        return argument;
}

/* The kernels before 6.12 tell 0, and have no slice of a thread's own. */
TEST(one_that_wants_a_cpu_soon_has_a_short_slice)
{
        uint64_t own_ns = slice_ns();
        pthread_t thread;

        ck_assert_int_eq(thread_start(run, NULL, &thread), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        ck_assert_uint_eq(since_ns, before_ns ? 100000 : 0);
        ck_assert_uint_eq(slice_ns(), own_ns);
}

TESTS_MAIN("thread")
