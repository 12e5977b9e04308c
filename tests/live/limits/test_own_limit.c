/* SPDX-License-Identifier: Apache-2.0 */
/* A process's own limits, by GPUMEM_MEMORY_FRACTION and gpumem_set_limit, and how memory counts: what is
 * really leased, and nothing after a failure. */
#include <sys/resource.h>

#include "tests/live/worlds/solo.h"

static void start(void)
{
        solo_start("devices=1,bytes=256MiB", OPTIONS("--device-bytes", "64MiB"));
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

/* A cached block may be larger than requested, and counts with its real size. */
TEST(blocks_count_while_they_are_leased)
{
        void *pointer, *more;
        uint64_t n_bytes;

        set_limit(32 * MIB);
        pointer = must_alloc(GPUMEM_DEVICE, 32 * MIB);
        n_bytes = device_stats().n_reserved_bytes;
        ck_assert_uint_eq(n_bytes, 32 * MIB);
        /* More than the rest of the block. */
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

/* With just so many fds the block does not come, or cannot be mapped. A block that the daemon has sent but
 * the process did not receive stays charged to it while it lives. */
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

/* 8 MiB and a little of the device. */
static void limit_by_fraction(void)
{
        char fraction[32];

        (void)snprintf(fraction, sizeof(fraction), "%.12f",
                       (double)(9 * MIB) / (double)daemon_device_bytes());
        ck_assert_int_eq(setenv("GPUMEM_MEMORY_FRACTION", fraction, 1), 0);
        gpumem_disconnect(client);
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
}

TEST(a_process_limits_itself)
{
        unsigned n_fds = own_fds();
        void *first, *second;

        limit_by_fraction();
        first = must_alloc(GPUMEM_DEVICE, 6 * MIB);
        ck_assert_int_eq(try_alloc(GPUMEM_DEVICE, 4 * MIB, &second), GPUMEM_E_LIMIT);
        must_say("this client's own limit: 6.00 MiB of ");
        must_say(" device memory reserved; 4.00 MiB asked. To do: free memory, or raise the limit");
        ck_assert_int_eq(gpumem_set_limit(client, GPUMEM_DEVICE, GPUMEM_NEAREST, 10 * MIB), 0);
        second = must_alloc(GPUMEM_DEVICE, 4 * MIB);
        set_limit(0);
        must_free(second);
        ck_assert_int_eq(try_alloc(GPUMEM_DEVICE, 4 * MIB, &second), GPUMEM_E_LIMIT);
        must_say("To do: request less, or raise the limit");
        set_limit(GPUMEM_NO_LIMIT);
        second = must_alloc(GPUMEM_DEVICE, 4 * MIB);
        ck_assert_int_eq(gpumem_set_limit(client, GPUMEM_DEVICE, 9, 1), GPUMEM_E_NO_POOL);
        ck_assert_int_eq(gpumem_set_limit(client, 9, 0, 1), GPUMEM_E_BAD_REQUEST);
        ck_assert_int_eq(gpu_use_none(gpu), 0);
        ck_assert_int_eq(gpumem_set_limit(client, GPUMEM_DEVICE, GPUMEM_NEAREST, 1),
                         GPUMEM_E_NO_CONTEXT);
        ck_assert_int_eq(gpu_use(gpu), 0);
        must_free(first);
        must_free(second);
        ck_assert_uint_eq(own_fds(), n_fds);
        daemon_await(FIGURE_charged, 0);
}

static uint64_t limit_now(void)
{
        return device_stats().n_limit_bytes;
}

/* What is held already stays, and no more comes; then a trim makes room. */
TEST(a_fraction_is_set_while_memory_is_held, NEEDS_EMULATOR)
{
        uint64_t n_device = daemon_device_bytes();
        void *first = must_alloc(GPUMEM_DEVICE, 16 * MIB), *more;

        ck_assert_uint_eq(limit_now(), GPUMEM_NO_LIMIT);
        ck_assert_int_eq(gpumem_set_memory_fraction(client, 0, 0.03125), 0);
        ck_assert_uint_eq(limit_now(), n_device / 32);
        ck_assert_uint_ge(device_stats().n_reserved_bytes, 16 * MIB);
        ck_assert_int_eq(try_alloc(GPUMEM_DEVICE, 8 * MIB, &more), GPUMEM_E_LIMIT);
        free_now(first);
        ck_assert_int_eq(gpumem_trim(client, 0, NULL), 0);
        ck_assert_int_eq(gpumem_set_memory_fraction(client, GPUMEM_NEAREST, 1), 0);
        ck_assert_uint_eq(limit_now(), GPUMEM_NO_LIMIT);
        free_now(must_alloc(GPUMEM_DEVICE, 16 * MIB));
        ck_assert_int_eq(gpumem_set_memory_fraction(client, 0, 1.1), GPUMEM_E_BAD_FRACTION);
        ck_assert_int_eq(gpumem_set_memory_fraction(client, 0, -0.1), GPUMEM_E_BAD_FRACTION);
        ck_assert_int_eq(gpumem_set_memory_fraction(client, 0, 0.0 / 0.0), GPUMEM_E_BAD_FRACTION);
        ck_assert_int_eq(gpumem_set_memory_fraction(client, 9, 1), GPUMEM_E_NO_POOL);
        ck_assert_uint_eq(limit_now(), GPUMEM_NO_LIMIT);
}

/* Of the two variables the lower limit counts. */
TEST(a_process_has_a_limit_in_bytes)
{
        void *pointer;

        limit_by_fraction();
        ck_assert_uint_ge(limit_now(), 8 * MIB);
        ck_assert_int_eq(setenv("GPUMEM_MEMORY_LIMIT", "6MiB", 1), 0);
        gpumem_disconnect(client);
        client = connect_client();
        ck_assert_uint_eq(limit_now(), 6 * MIB);
        ck_assert_int_eq(try_alloc(GPUMEM_DEVICE, 8 * MIB, &pointer), GPUMEM_E_LIMIT);
        free_now(must_alloc(GPUMEM_DEVICE, 6 * MIB));
        ck_assert_int_eq(setenv("GPUMEM_MEMORY_LIMIT", "60GiB", 1), 0);
        gpumem_disconnect(client);
        client = connect_client();
        ck_assert_uint_ge(limit_now(), 8 * MIB);
        ck_assert_uint_le(limit_now(), 9 * MIB);
        ck_assert_int_eq(unsetenv("GPUMEM_MEMORY_LIMIT"), 0);
}

TEST(a_bad_fraction_is_an_error)
{
        static const char *const wrong[] = {"0", "1.01", "half", "-0.5",
                                            ".", "0.5x", "1e-1", "nan"};
        struct gpumem_client *other;
        unsigned n_fds = own_fds();

        for (unsigned i = 0; i < ARRAY_SIZE(wrong); i++) {
                ck_assert_int_eq(setenv("GPUMEM_MEMORY_FRACTION", wrong[i], 1), 0);
                ck_assert_int_eq(gpumem_connect(NULL, &other), GPUMEM_E_BAD_FRACTION);
        }
        ck_assert_int_eq(setenv("GPUMEM_MEMORY_FRACTION", "1.0", 1), 0);
        ck_assert_int_eq(gpumem_connect(NULL, &other), 0);
        gpumem_disconnect(other);
        ck_assert_uint_eq(own_fds(), n_fds);
}

TESTS_MAIN("own_limit", .limit_s = 60, .start = start, .stop = stop)
