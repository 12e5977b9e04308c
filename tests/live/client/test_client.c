/* SPDX-License-Identifier: Apache-2.0 */
/* libgpumem-client as a program uses it: memory of each kind, streams, statistics, threads. */
#include <pthread.h>

#include "tests/live/support/world.h"
#include "tests/live/worlds/program.h"

static void start_on_slow_device(void)
{
        program_start_on("devices=2,bytes=256MiB,copy_delay_us=20000");
}

static void check_bytes(const unsigned char *bytes, unsigned char byte, uint64_t n_bytes)
{
        for (uint64_t i = 0; i < n_bytes; i++)
                ck_assert_uint_eq(bytes[i], byte);
}

static void synchronize(void)
{
        ck_assert_int_eq(gpu_synchronize(gpus[0]), 0);
}

static const struct test_case slow = {"slow", .limit_s = 60, .start = start_on_slow_device,
                                      .stop = program_stop};

TEST(pinned_memory_is_the_cpus_and_the_devices)
{
        struct gpumem_request request = pinned(100000), target = on_device(0, 100000);
        unsigned char *from = must_alloc(&request), *to = must_alloc(&target);

        memset(from, 0x5a, request.n_bytes);
        ck_assert_int_eq(gpu_copy_to_device(gpus[0], to, from, request.n_bytes), 0);
        synchronize();
        memset(from, 0, request.n_bytes);
        ck_assert_int_eq(gpu_copy_to_host(gpus[0], from, to, request.n_bytes), 0);
        synchronize();
        check_bytes(from, 0x5a, request.n_bytes);
        must_free(&request, from);
        must_free(&target, to);
}

/* Two allocations in one block: the second is a hit, and one block is leased for both. */
TEST(statistics_say_what_is_held)
{
        struct gpumem_request request = on_device(0, 1000);
        unsigned char *one = must_alloc(&request), *two = must_alloc(&request);
        struct gpumem_stats stats = stats_of(GPUMEM_DEVICE, 0);

        ck_assert_uint_eq(stats.n_requested_bytes, 2000);
        ck_assert_uint_eq(stats.n_allocated_bytes, 2048);
        ck_assert_uint_eq(stats.n_reserved_bytes, 2 * MIB);
        ck_assert_uint_eq(stats.n_blocks, 1);
        ck_assert_uint_eq(stats.n_hits, 1);
        ck_assert_uint_eq(stats.n_misses, 1);
        ck_assert_uint_eq(daemon_figure(FIGURE_requested), 2000);
        ck_assert_uint_eq(daemon_figure(FIGURE_allocated), 2048);
        ck_assert_uint_eq(daemon_figure(FIGURE_leased), 2 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_hits), 1);
        must_free(&request, one);
        must_free(&request, two);
        stats = stats_of(GPUMEM_DEVICE, 0);
        ck_assert_uint_eq(stats.n_requested_bytes, 0);
        ck_assert_uint_eq(stats.n_reserved_bytes, 0);
        ck_assert_uint_eq(stats.n_requested_peak_bytes, 2000);
        ck_assert_uint_eq(stats.n_reserved_peak_bytes, 2 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_cached), 2 * MIB);
}

TEST(streams_do_not_share_blocks)
{
        struct gpumem_request one = on_device(0, 1000), two = one;
        unsigned char *in_one = must_alloc(&one), *in_two;

        two.stream = NULL;
        in_two = must_alloc(&two);
        ck_assert_uint_ne((uintptr_t)in_one / (2 * MIB), (uintptr_t)in_two / (2 * MIB));
        must_free(&one, in_one);
        must_free(&two, in_two);
}

/* A free in the order of another stream, and one without a stream. */
TEST(memory_is_freed_in_any_streams_order)
{
        struct gpumem_request request = on_device(0, 1000);
        unsigned char *pointer = must_alloc(&request);

        ck_assert_int_eq(gpumem_free(client, pointer, NULL), 0);
        pointer = must_alloc(&request);
        ck_assert_int_eq(gpumem_free_sync(client, pointer), 0);
        ck_assert_int_eq(gpumem_free(client, NULL, NULL), 0);
        ck_assert_uint_eq(stats_of(GPUMEM_DEVICE, 0).n_reserved_bytes, 0);
}

/* A copy from pinned memory is under way when the memory is freed and allocated again: the CPU's next write
 * must not come before the copy. `other` keeps the block from becoming empty. */
TEST(pinned_memory_is_had_again_after_its_copies, .in = &slow, NEEDS_EMULATOR)
{
        struct gpumem_request request = pinned(64 * KIB), target = on_device(0, 64 * KIB);
        unsigned char *to = must_alloc(&target), *other = must_alloc(&request);
        unsigned char *from = must_alloc(&request), *again;

        memset(from, 1, request.n_bytes);
        ck_assert_int_eq(gpu_copy_to_device(gpus[0], to, from, request.n_bytes), 0);
        must_free(&request, from);
        again = must_alloc(&request);
        ck_assert_ptr_eq(again, from);
        memset(again, 2, request.n_bytes);
        ck_assert_int_eq(gpu_copy_to_host(gpus[0], other, to, request.n_bytes), 0);
        synchronize();
        check_bytes(other, 1, request.n_bytes);
        must_free(&request, again);
        must_free(&request, other);
        must_free(&target, to);
}

/* Work of another stream still uses device memory that is freed in that stream's order: the allocation's
 * own stream must not get it earlier. */
TEST(device_memory_is_had_again_after_another_streams_work, .in = &slow, NEEDS_EMULATOR)
{
        struct gpumem_request request = on_device(0, 64 * KIB), host = pinned(64 * KIB);
        unsigned char *staged = must_alloc(&host), *keeper = must_alloc(&request), *from, *again;

        from = must_alloc(&request);
        memset(staged, 7, host.n_bytes);
        ck_assert_int_eq(gpu_copy_to_device(gpus[0], from, staged, host.n_bytes), 0);
        synchronize();
        memset(staged, 0, host.n_bytes);
        ck_assert_int_eq(gpu_copy_to_host_by_default(gpus[0], staged, from, host.n_bytes), 0);
        ck_assert_int_eq(gpumem_free(client, from, NULL), 0);
        again = must_alloc(&request);
        ck_assert_ptr_eq(again, from);
        ck_assert_int_eq(gpu_fill(gpus[0], again, 9, host.n_bytes), 0);
        synchronize();
        check_bytes(staged, 7, host.n_bytes);
        must_free(&request, again);
        must_free(&request, keeper);
        must_free(&host, staged);
}

TEST(free_all_blocks_says_how_much)
{
        struct gpumem_request request = on_device(0, 5 * MIB);
        uint64_t n_freed = 1;

        must_free(&request, must_alloc(&request));
        ck_assert_uint_eq(daemon_figure(FIGURE_cached), 6 * MIB);
        ck_assert_int_eq(gpumem_free_all_blocks(client, GPUMEM_SCOPE_TENANT, &n_freed), 0);
        ck_assert_uint_eq(n_freed, 6 * MIB);
        daemon_await(FIGURE_reserved, 0);
        ck_assert_int_eq(gpumem_free_all_blocks(client, GPUMEM_SCOPE_NODE, NULL),
                         getuid() == 0 ? 0 : GPUMEM_E_DENIED);
        ck_assert_int_eq(gpumem_free_all_blocks(client, (enum gpumem_scope)7, &n_freed),
                         GPUMEM_E_BAD_REQUEST);
        ck_assert_uint_eq(n_freed, 6 * MIB);
}

/* A client that keeps freed memory, and has no thread. */
static void connect_again(void)
{
        gpumem_disconnect(client);
        ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
        ck_assert_int_eq(setenv("GPUMEM_SERVICE_THREAD", "0", 1), 0);
        client = connect_client();
}

static uint64_t free_all_blocks(void)
{
        uint64_t n_freed;

        ck_assert_int_eq(gpumem_free_all_blocks(client, GPUMEM_SCOPE_TENANT, &n_freed), 0);
        return n_freed;
}

/* No thread checks whether freed memory is idle: the call does. */
TEST(what_was_freed_a_moment_before_goes_back)
{
        struct gpumem_request request = on_device(0, 5 * MIB), host = pinned(5 * MIB);

        connect_again();
        must_free(&request, must_alloc(&request));
        must_free(&host, must_alloc(&host));
        ck_assert_uint_eq(daemon_figure(FIGURE_cached), 0);
        ck_assert_uint_eq(free_all_blocks(), 12 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_reserved), 0);
        ck_assert_uint_eq(free_all_blocks(), 0);
}

/* If the daemon caches nothing for long, flushed blocks may have gone back before it is asked to free all. */
TEST(what_was_freed_counts_where_nothing_is_cached)
{
        struct gpumem_request request = on_device(0, 5 * MIB);

        must_free(&request, must_alloc(&request));
        daemon_configure(&gpumemd,
                         "{\"pools\": [{\"device\": \"all\", \"return_after_seconds\": 0}]}");
        daemon_await(FIGURE_reserved, 0);
        connect_again();
        must_free(&request, must_alloc(&request));
        ck_assert_uint_eq(free_all_blocks(), 6 * MIB);
        daemon_await(FIGURE_reserved, 0);
}

#define THREADS 4
#define ROUNDS  400

static void *churn(void *argument)
{
        unsigned seed = (unsigned)(uintptr_t)argument;
        struct gpumem_request request = on_device(seed % n_gpus, 0);
        unsigned char *held[16] = {NULL};

        for (unsigned round = 0; round < ROUNDS; round++) {
                unsigned slot = (unsigned)rand_r(&seed) % 16;

                if (held[slot])
                        must_free(&request, held[slot]);
                request.n_bytes = 1 + (unsigned)rand_r(&seed) % (MIB / 2);
                held[slot] = must_alloc(&request);
                if (round % 50 == 0) {
                        (void)stats_of(GPUMEM_DEVICE, request.place);
                        ck_assert_int_eq(gpumem_free_all_blocks(client, GPUMEM_SCOPE_TENANT, NULL),
                                         0);
                }
        }
        for (unsigned slot = 0; slot < 16; slot++)
                must_free(&request, held[slot]);
        return NULL;
}

TEST(threads_share_a_client)
{
        pthread_t threads[THREADS];

        for (uintptr_t i = 0; i < THREADS; i++)
                ck_assert_int_eq(pthread_create(&threads[i], NULL, churn, (void *)i), 0);
        for (unsigned i = 0; i < THREADS; i++)
                ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        for (unsigned device = 0; device < n_gpus; device++)
                ck_assert_uint_eq(stats_of(GPUMEM_DEVICE, (int32_t)device).n_reserved_bytes, 0);
}

#define CROWD 100

static void *allocate_one(void *argument)
{
        struct gpumem_request request = on_device(0, MIB);

        request.stream = NULL;
        request.flags = GPUMEM_SHAREABLE;
        *(void **)argument = must_alloc(&request);
        return NULL;
}

static void start_on_slow_creation(void)
{
        program_start_on("devices=2,bytes=1GiB,delay=cuMemCreate:5000");
}

static const struct test_case slow_creation = {
        "slow_creation", .limit_s = 60, .start = start_on_slow_creation, .stop = program_stop};

/* More threads than a client may have requests without an answer. Each needs a block of its own. */
TEST(threads_that_ask_at_once_wait_for_each_other, .in = &slow_creation, NEEDS_EMULATOR)
{
        pthread_t threads[CROWD];
        void *pointers[CROWD];

        for (unsigned i = 0; i < CROWD; i++)
                ck_assert_int_eq(pthread_create(&threads[i], NULL, allocate_one, &pointers[i]), 0);
        for (unsigned i = 0; i < CROWD; i++) {
                ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
                ck_assert_int_eq(gpumem_free(client, pointers[i], NULL), 0);
        }
}

TESTS_MAIN("client", .limit_s = 60, .start = program_start, .stop = program_stop)
