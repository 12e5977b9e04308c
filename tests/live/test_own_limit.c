/* SPDX-License-Identifier: Apache-2.0 */
/* A process's own limit, as it is counted: what it leases really, and nothing after a failure. */
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/size.h"
#include "tests/live/solo.h"
#include "tests/suite.h"

static void start(void)
{
        solo_start("devices=1,bytes=256MiB", NULL);
}

static void stop(void)
{
        solo_close();
        daemon_stop(&gpumemd);
}

static void free_now(void *pointer)
{
        ck_assert_int_eq(gpumem_free_sync(client, pointer), 0);
}

static void set_limit(uint64_t n_bytes)
{
        ck_assert_int_eq(gpumem_set_limit(client, GPUMEM_DEVICE, 0, n_bytes), 0);
}

/* A cached block may be larger than what is asked for, and counts as it is. */
TEST(blocks_count_while_they_are_leased)
{
        void *pointer, *more;
        uint64_t n_bytes;

        set_limit(32 * MIB);
        pointer = must_alloc(GPUMEM_DEVICE, 32 * MIB);
        n_bytes = device_stats().n_reserved_bytes;
        ck_assert_uint_eq(n_bytes, 32 * MIB);
        /* More than what is left of the block. */
        set_limit(n_bytes + 6 * MIB - 1);
        ck_assert_int_eq(try_alloc(GPUMEM_DEVICE, 6 * MIB, &more), GPUMEM_E_LIMIT);
        set_limit(n_bytes + 6 * MIB);
        more = must_alloc(GPUMEM_DEVICE, 6 * MIB);
        free_now(more);
        free_now(pointer);
        ck_assert_uint_eq(device_stats().n_reserved_bytes, 0);
        /* All of it is free again, and no more than that. */
        pointer = must_alloc(GPUMEM_DEVICE, n_bytes + 6 * MIB);
        free_now(pointer);
        ck_assert_int_eq(try_alloc(GPUMEM_DEVICE, n_bytes + 8 * MIB, &more), GPUMEM_E_LIMIT);
        daemon_await(FIGURE_charged, 0);
}

static unsigned lowest_free_fd(void)
{
        int fd = dup(STDERR_FILENO);

        ck_assert_int_ge(fd, 0);
        (void)close(fd);
        return (unsigned)fd;
}

/* With so many fds and no more the block does not come, or cannot be mapped when it has come. What the
 * daemon has sent and nobody got stays charged to this process while it lives. */
TEST(what_could_not_be_mapped_counts_no_more, NEEDS_EMULATOR)
{
        struct rlimit files, fewer;
        unsigned n_failed = 0;

        free_now(must_alloc(GPUMEM_DEVICE, 4 * MIB));
        set_limit(4 * MIB);
        ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
        for (unsigned i = 0; i < 10; i++) {
                void *pointer;
                int r;

                fewer = files;
                fewer.rlim_cur = lowest_free_fd() + i;
                ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &fewer), 0);
                r = try_alloc(GPUMEM_DEVICE, 4 * MIB, &pointer);
                ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
                if (r)
                        n_failed++;
                else
                        free_now(pointer);
                ck_assert_int_ne(r, GPUMEM_E_LIMIT);
                free_now(must_alloc(GPUMEM_DEVICE, 4 * MIB));
        }
        (void)printf("# %u of 10 failed\n", n_failed);
        ck_assert_uint_gt(n_failed, 1);
        ck_assert_uint_lt(n_failed, 10);
}

TESTS_MAIN("own_limit", .limit_s = 60, .start = start, .stop = stop)
