/* SPDX-License-Identifier: Apache-2.0 */
/* gpumem_get_stats beside a naive count of what the program did, after each step; and what becomes of memory that
 * is freed: free, cached, back at the daemon. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/size.h"
#include "tests/live/worlds/solo.h"
#include "tests/random.h"

#define N_PLACES 64
#define N_STEPS  3000

/* So much that its free is noticed at once. */
#define MOST (128 * MIB)

/* daemon_start sets the cache's size to 0; here the service thread marks idle blocks. */
static void start(void)
{
        daemon_start(&gpumemd, "devices=1,bytes=256MiB",
                     OPTIONS("--device-bytes", "256MiB", "--pinned-bytes", "256MiB"));
        ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
        solo_open(getuid());
}

/* What the program has, counted one by one. */
struct naive {
        struct {
                void *pointer;
                uint64_t n_bytes;
                uint64_t n_rest_bytes; /* of a block of its own */
        } at[N_PLACES];
        uint64_t n_requested_peak, n_allocated_peak, n_reserved_peak, n_allocations, n_frees;
};

static uint64_t rounded(uint64_t n_bytes)
{
        return (n_bytes + 511) / 512 * 512;
}

static void raise_to(uint64_t *peak, uint64_t n)
{
        *peak = n > *peak ? n : *peak;
}

static void compare_parts(const struct gpumem_stats *stats, uint64_t n_rest_bytes)
{
        double part;

        ck_assert_uint_le(stats->n_allocated_bytes, stats->n_reserved_bytes);
        ck_assert_uint_eq(stats->n_free_bytes,
                          stats->n_reserved_bytes - stats->n_allocated_bytes - n_rest_bytes);
        ck_assert_uint_eq(stats->n_free_bytes,
                          stats->n_inactive_split_bytes + stats->n_cached_bytes);
        ck_assert_uint_le(stats->n_cached_blocks, stats->n_blocks);
        ck_assert_uint_eq(stats->n_cached_blocks == 0, stats->n_cached_bytes == 0);
        ck_assert_uint_le(stats->n_largest_free_bytes, stats->n_free_bytes);
        ck_assert_uint_le(stats->n_largest_free_bytes * (stats->n_free_extents == 1),
                          stats->n_free_bytes);
        part = stats->n_free_bytes
                       ? (double)stats->n_largest_free_bytes / (double)stats->n_free_bytes
                       : 1;
        ck_assert_double_eq_tol(stats->fragmentation, 1 - part, 1e-12);
}

static void compare(struct naive *naive)
{
        struct gpumem_stats stats = device_stats();
        uint64_t n_requested = 0, n_allocated = 0, n_rest = 0, n_live = 0;

        for (unsigned i = 0; i < N_PLACES; i++) {
                n_requested += naive->at[i].n_bytes;
                n_allocated += rounded(naive->at[i].n_bytes);
                n_rest += naive->at[i].n_rest_bytes;
                n_live += naive->at[i].pointer != NULL;
        }
        raise_to(&naive->n_requested_peak, n_requested);
        raise_to(&naive->n_allocated_peak, n_allocated);
        raise_to(&naive->n_reserved_peak, stats.n_reserved_bytes);
        ck_assert_uint_eq(stats.n_requested_bytes, n_requested);
        ck_assert_uint_eq(stats.n_allocated_bytes, n_allocated);
        ck_assert_uint_eq(stats.n_requested_peak_bytes, naive->n_requested_peak);
        ck_assert_uint_eq(stats.n_allocated_peak_bytes, naive->n_allocated_peak);
        ck_assert_uint_ge(stats.n_reserved_peak_bytes, naive->n_reserved_peak);
        ck_assert_uint_eq(stats.n_live, n_live);
        ck_assert_uint_eq(stats.n_allocations, naive->n_allocations);
        ck_assert_uint_eq(stats.n_frees, naive->n_frees);
        compare_parts(&stats, n_rest);
}

/* A few of most sizes, each like another, so that there are slabs; some with a block of their own. */
static void take(struct naive *naive, unsigned i, uint64_t random)
{
        struct gpumem_request request = request_of(GPUMEM_DEVICE, 1);

        request.n_bytes = 1 + random % (UINT64_C(1) << (random >> 32) % 22);
        if (random >> 40 & 1)
                request.n_bytes = 512 * (1 + random % 3);
        if (!(random >> 44 & 63)) {
                request.flags = GPUMEM_SHAREABLE;
                naive->at[i].n_rest_bytes = (request.n_bytes + 2 * MIB - 1) / (2 * MIB) * 2 * MIB -
                                            rounded(request.n_bytes);
        }
        ck_assert_int_eq(gpumem_alloc(client, &request, &naive->at[i].pointer), 0);
        naive->at[i].n_bytes = request.n_bytes;
        naive->n_allocations++;
}

static void give(struct naive *naive, unsigned i)
{
        must_free(naive->at[i].pointer);
        naive->at[i].pointer = NULL;
        naive->at[i].n_bytes = naive->at[i].n_rest_bytes = 0;
        naive->n_frees++;
}

static void reset(struct naive *naive)
{
        ck_assert_int_eq(gpumem_reset_peaks(client, GPUMEM_DEVICE, 0), 0);
        naive->n_requested_peak = naive->n_allocated_peak = naive->n_reserved_peak = 0;
}

TEST(statistics_are_what_a_naive_count_says, .to = 1)
{
        struct test_random random = test_random_begin();
        struct naive naive = {.n_frees = 0};

        for (unsigned step = 0; step < N_STEPS; step++) {
                uint64_t number = test_random_next(&random);
                unsigned i = number % N_PLACES;

                if (naive.at[i].pointer)
                        give(&naive, i);
                else
                        take(&naive, i, test_random_next(&random));
                if (step % 500 == 499)
                        reset(&naive);
                if (step % 700 == 699)
                        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
                compare(&naive);
        }
        for (unsigned i = 0; i < N_PLACES; i++) {
                if (naive.at[i].pointer)
                        give(&naive, i);
        }
        compare(&naive);
}

/* Memory that nothing uses is cached here, where gpumemd may take it; then it is none of the process's. */
TEST(memory_that_nothing_uses_is_cached_until_a_flush)
{
        struct gpumem_stats stats;

        must_free(must_alloc(GPUMEM_DEVICE, MOST));
        AWAIT(device_stats().n_cached_bytes);
        stats = device_stats();
        ck_assert_uint_eq(stats.n_inactive_split_bytes, 0);
        ck_assert_uint_eq(stats.n_cached_bytes, MOST);
        ck_assert_uint_eq(stats.n_cached_blocks, stats.n_blocks);
        ck_assert_uint_eq(stats.n_largest_free_bytes, MOST);
        ck_assert_double_eq(stats.fragmentation, 0);
        daemon_await(FIGURE_idle, MOST);
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        stats = device_stats();
        ck_assert_uint_eq(stats.n_cached_bytes + stats.n_free_bytes + stats.n_cached_blocks, 0);
        ck_assert_uint_eq(stats.n_largest_free_bytes + stats.n_free_extents, 0);
        ck_assert_uint_eq(stats.n_limit_bytes, GPUMEM_NO_LIMIT);
        ck_assert_uint_eq(stats.n_cache_limit_bytes, GPUMEM_NO_LIMIT);
}

/* Two holes of a quarter each: the largest is half of what is free. */
TEST(fragmentation_is_what_the_largest_hole_lacks)
{
        struct gpumem_stats stats;
        void *quarters[4];

        must_free(must_alloc(GPUMEM_DEVICE, 32 * MIB));
        for (unsigned i = 0; i < 4; i++)
                quarters[i] = must_alloc(GPUMEM_DEVICE, 8 * MIB);
        ck_assert_uint_eq(device_stats().n_reserved_bytes, 32 * MIB);
        ck_assert_uint_eq(device_stats().n_largest_free_bytes, 0);
        must_free(quarters[0]);
        must_free(quarters[2]);
        stats = device_stats();
        ck_assert_uint_eq(stats.n_free_bytes, 16 * MIB);
        ck_assert_uint_eq(stats.n_largest_free_bytes, 8 * MIB);
        ck_assert_uint_eq(stats.n_free_extents, 2);
        ck_assert_double_eq_tol(stats.fragmentation, 0.5, 1e-12);
        must_free(quarters[1]);
        ck_assert_uint_eq(device_stats().n_largest_free_bytes, 24 * MIB);
        ck_assert_double_eq(device_stats().fragmentation, 0);
        must_free(quarters[3]);
}

/* No test waits so long: something else ends the wait. */
#define LONG_MS 600000

static int monitor(uint32_t period_ms, struct gpumem_stats *ret_stats)
{
        *ret_stats = (struct gpumem_stats){.struct_size = sizeof(*ret_stats)};
        return gpumem_monitor_wait(client, GPUMEM_DEVICE, 0, period_ms, ret_stats);
}

static void *monitor_long(void *ret_stats)
{
        ck_assert_int_eq(monitor(LONG_MS, ret_stats), 0);
        return NULL;
}

/* Does it until the thread has ended: it may not wait yet at the first time. */
static void until_ended(pthread_t thread, void (*end_wait)(void))
{
        do
                end_wait();
        while (pthread_tryjoin_np(thread, NULL));
}

static void wake(void)
{
        gpumem_monitor_wake(client);
}

static void be_refused(void)
{
        void *pointer;

        ck_assert_int_ne(try_alloc(GPUMEM_DEVICE, 1000 * MIB, &pointer), 0);
}

TEST(a_monitor_waits_for_its_period_an_event_or_a_wake, .to = 2)
{
        struct gpumem_stats stats;
        pthread_t thread;
        void *pointer;

        ck_assert_int_eq(monitor(1, &stats), 0);
        ck_assert_uint_eq(stats.n_live, 0);
        ck_assert_int_eq(pthread_create(&thread, NULL, monitor_long, &stats), 0);
        pointer = must_alloc(GPUMEM_DEVICE, 5000);
        until_ended(thread, _i ? be_refused : wake);
        ck_assert_uint_eq(stats.n_live, 1);
        ck_assert_uint_eq(stats.n_requested_bytes, 5000);
        must_free(pointer);
}

/* A monitor that handles one event misses none that comes meanwhile. */
TEST(a_monitor_does_not_wait_after_an_event)
{
        struct gpumem_stats stats;

        ck_assert_int_eq(monitor(1, &stats), 0);
        wake();
        ck_assert_int_eq(monitor(LONG_MS, &stats), 0);
        be_refused();
        ck_assert_int_eq(monitor(LONG_MS, &stats), 0);
        ck_assert_int_eq(monitor(1, &stats), 0);
}

static uint64_t n_refusals(void)
{
        const char *names[64];
        uint64_t values[64];
        size_t n, i = 0;

        ck_assert_int_eq(gpumem_get_figures(client, GPUMEM_DEVICE, 0, names, values, 64, &n), 0);
        while (strcmp(names[i], "refusals") != 0)
                ck_assert_uint_lt(++i, n);
        return values[i];
}

static void on_event(const struct gpumem_event *event, void *argument)
{
        (void)event;
        (void)argument;
}

/* With a callback and without. */
TEST(refusals_are_counted, .to = 2)
{
        ck_assert_int_eq(gpumem_set_event_callback(client, _i ? on_event : NULL, NULL), 0);
        for (unsigned i = 0; i < 3; i++) {
                ck_assert_uint_eq(n_refusals(), i);
                be_refused();
        }
        ck_assert_uint_eq(n_refusals(), 3);
}

/* A shareable allocation has its block alone. */
TEST(the_rest_of_a_shareable_allocations_block_is_not_free)
{
        struct gpumem_request request = request_of(GPUMEM_DEVICE, 100 * KIB);
        struct gpumem_stats stats;
        void *pointer;

        request.flags = GPUMEM_SHAREABLE;
        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), 0);
        stats = device_stats();
        ck_assert_uint_eq(stats.n_reserved_bytes, 2 * MIB);
        ck_assert_uint_eq(stats.n_allocated_bytes, 100 * KIB);
        ck_assert_uint_eq(stats.n_free_bytes + stats.n_inactive_split_bytes, 0);
        ck_assert_double_eq(stats.fragmentation, 0);
        must_free(pointer);
        ck_assert_uint_eq(device_stats().n_free_bytes, 0);
}

TEST(a_monitor_tells_at_once_what_is_wrong)
{
        struct gpumem_stats stats = {.struct_size = 3};

        ck_assert_int_eq(gpumem_monitor_wait(client, GPUMEM_DEVICE, 0, LONG_MS, &stats), -EINVAL);
        stats.struct_size = sizeof(stats);
        ck_assert_int_eq(gpumem_monitor_wait(client, GPUMEM_DEVICE, 7, LONG_MS, &stats),
                         GPUMEM_E_NO_POOL);
}

/* A program that was built with an earlier header has a shorter struct. */
TEST(a_struct_of_an_earlier_version_is_filled)
{
        struct gpumem_stats stats = {.n_free_bytes = 7};
        void *pointer = must_alloc(GPUMEM_DEVICE, MIB);

        stats.struct_size = offsetof(struct gpumem_stats, n_free_bytes);
        ck_assert_int_eq(gpumem_get_stats(client, GPUMEM_DEVICE, 0, &stats), 0);
        ck_assert_uint_eq(stats.n_requested_bytes, MIB);
        ck_assert_uint_eq(stats.n_free_bytes, 7);
        must_free(pointer);
}

TESTS_MAIN("statistics", .start = start, .stop = solo_stop, .limit_s = 60)
