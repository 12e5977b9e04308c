/* SPDX-License-Identifier: Apache-2.0 */
/* gpumem_reserve: what it holds, for whom, and which calls wait for it. One device of 256 MiB, and another
 * process. */
#include <stdlib.h>

#include "tests/live/worlds/holder.h"
#include "tests/live/worlds/solo.h"

/* Longer than a test may take. */
#define WAIT_MS 100000

static struct holder holder;

static void start(void)
{
        daemon_start(&gpumemd, "devices=1,bytes=256MiB", OPTIONS("--device-bytes", "256MiB"));
        ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
        holder_start(&holder);
        solo_open(getuid());
}

static void stop(void)
{
        holder_end(&holder);
        solo_close();
        gpumemd_stop_empty();
}

static int reserve(uint64_t n_bytes, uint32_t wait_ms)
{
        return gpumem_reserve(client, 0, n_bytes, wait_ms);
}

static void must_reserve(uint64_t n_bytes)
{
        ck_assert_int_eq(reserve(n_bytes, 0), 0);
}

static uint64_t n_leases_ever(void)
{
        return daemon_figure(FIGURE_creates) + daemon_figure(FIGURE_cache_grants);
}

TEST(allocations_after_it_ask_for_nothing)
{
        void *pieces[16], *all;
        uint64_t n_leases;

        must_reserve(64 * MIB);
        n_leases = n_leases_ever();
        ck_assert_uint_eq(device_stats().n_reserved_bytes, 64 * MIB);
        all = must_alloc(GPUMEM_DEVICE, 64 * MIB);
        must_free(all);
        for (unsigned i = 0; i < 16; i++)
                pieces[i] = must_alloc(GPUMEM_DEVICE, 4 * MIB);
        for (unsigned i = 0; i < 16; i++)
                must_free(pieces[i]);
        ck_assert_uint_eq(device_stats().n_hits, 17);
        ck_assert_uint_eq(device_stats().n_misses, 0);
        ck_assert_uint_eq(n_leases_ever(), n_leases);
        must_reserve(0);
}

TEST(every_stream_has_of_it)
{
        ck_assert_int_eq(holder_reserve(&holder, 64 * MIB, 0), 0);
        (void)holder_keep(&holder, HOLDER_STREAMS);
        ck_assert_uint_eq(holder_hits(&holder), HOLDER_STREAMS);
        ck_assert_uint_eq(daemon_figure(FIGURE_leased), 64 * MIB);
}

TEST(nobody_else_has_it_while_it_stands)
{
        must_reserve(192 * MIB);
        ck_assert_int_eq(holder_alloc(&holder, 96 * MIB, 0), GPUMEM_E_REFUSED);
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        ck_assert_int_eq(holder_alloc(&holder, 96 * MIB, 30), GPUMEM_E_TIMED_OUT);
        ck_assert_uint_eq(device_stats().n_reserved_bytes, 192 * MIB);
        must_reserve(0);
        ck_assert_int_eq(holder_alloc(&holder, 96 * MIB, WAIT_MS), 0);
}

TEST(what_is_freed_is_reserved_again)
{
        void *all;

        must_reserve(192 * MIB);
        all = must_alloc(GPUMEM_DEVICE, 192 * MIB);
        must_free(all);
        ck_assert_int_eq(gpu_synchronize(gpu), 0);
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        ck_assert_int_eq(holder_alloc(&holder, 96 * MIB, 30), GPUMEM_E_TIMED_OUT);
        must_reserve(0);
        ck_assert_int_eq(holder_alloc(&holder, 96 * MIB, WAIT_MS), 0);
}

TEST(waits_for_another_holder_and_holds_nothing_meanwhile)
{
        void *mine = must_alloc(GPUMEM_DEVICE, 160 * MIB);

        ck_assert_int_eq(holder_reserve(&holder, 128 * MIB, 0), GPUMEM_E_REFUSED);
        ck_assert_int_eq(holder_reserve(&holder, 128 * MIB, 30), GPUMEM_E_TIMED_OUT);
        holder_begin_reserve(&holder, 128 * MIB, WAIT_MS);
        daemon_await(FIGURE_waiting, 1);
        ck_assert_uint_eq(daemon_figure(FIGURE_reserved), 160 * MIB);
        must_free(mine);
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        ck_assert_int_eq(holder_end_reserve(&holder), 0);
        ck_assert_int_eq(holder_alloc(&holder, 128 * MIB, 0), 0);
        ck_assert_uint_eq(holder_hits(&holder), 1);
        holder_check(&holder);
}

/* The holder's first try takes what is idle, without waiting; the second one waits. */
static void begin_a_wait(uint64_t n_bytes)
{
        holder_begin_reserve(&holder, n_bytes, WAIT_MS);
        daemon_await(FIGURE_refusals, 1);
        daemon_await(FIGURE_waiting, 1);
}

/* It would never come: neither gives back what the other waits for. */
TEST(of_two_holders_that_wait_one_is_refused_soon)
{
        void *mine = must_alloc(GPUMEM_DEVICE, 112 * MIB);

        ck_assert_int_eq(holder_alloc(&holder, 112 * MIB, 0), 0);
        begin_a_wait(64 * MIB);
        ck_assert_int_eq(reserve(128 * MIB, WAIT_MS), GPUMEM_E_REFUSED);
        must_say("every process that holds this memory waits for more");
        must_say("128.00 MiB asked");
        must_say("this request came last");
        ck_assert_uint_eq(daemon_figure(FIGURE_waiting), 1);
        must_free(mine);
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        ck_assert_int_eq(holder_end_reserve(&holder), 0);
}

TEST(of_two_that_wait_for_allocations_too)
{
        struct gpumem_request request = request_of(GPUMEM_DEVICE, 64 * MIB);
        void *mine = must_alloc(GPUMEM_DEVICE, 112 * MIB), *more;

        ck_assert_int_eq(holder_alloc(&holder, 112 * MIB, 0), 0);
        begin_a_wait(64 * MIB);
        request.wait_ms = WAIT_MS;
        ck_assert_int_eq(gpumem_alloc(client, &request, &more), GPUMEM_E_REFUSED);
        must_say("this request came last");
        must_free(mine);
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        ck_assert_int_eq(holder_end_reserve(&holder), 0);
}

TEST(what_is_idle_counts)
{
        uint64_t n_leases;

        must_free(must_alloc(GPUMEM_DEVICE, 64 * MIB));
        daemon_await(FIGURE_idle, 64 * MIB);
        n_leases = n_leases_ever();
        must_reserve(64 * MIB);
        ck_assert_uint_eq(n_leases_ever(), n_leases);
        must_reserve(0);
        must_reserve(224 * MIB);
        ck_assert_uint_eq(device_stats().n_reserved_bytes, 224 * MIB);
        must_free(must_alloc(GPUMEM_DEVICE, 224 * MIB));
        ck_assert_uint_eq(device_stats().n_misses, 1);
        must_reserve(0);
}

/* In pieces that lie apart it serves only when it has been given back. */
TEST(what_is_idle_in_pieces_counts_too)
{
        void *pieces[8];

        for (unsigned i = 0; i < 8; i++)
                pieces[i] = must_alloc(GPUMEM_DEVICE, 24 * MIB);
        for (unsigned i = 0; i < 8; i += 2)
                must_free(pieces[i]);
        ck_assert_int_eq(gpu_synchronize(gpu), 0);
        must_reserve(128 * MIB);
        must_free(must_alloc(GPUMEM_DEVICE, 128 * MIB));
        must_reserve(0);
        for (unsigned i = 1; i < 8; i += 2)
                must_free(pieces[i]);
}

TEST(the_next_one_replaces_it)
{
        must_reserve(192 * MIB);
        must_reserve(32 * MIB);
        ck_assert_int_eq(holder_alloc(&holder, 192 * MIB, WAIT_MS), 0);
        ck_assert_int_eq(reserve(128 * MIB, 0), GPUMEM_E_REFUSED);
        must_say("asked");
        holder_free_all(&holder);
        holder_flush(&holder);
        /* The one that failed has ended the last one. */
        ck_assert_int_eq(holder_alloc(&holder, 256 * MIB, WAIT_MS), 0);
}

TEST(limits_hold)
{
        struct gpumem_refusal refusal;

        ck_assert_int_eq(gpumem_set_limit(client, GPUMEM_DEVICE, 0, 32 * MIB), 0);
        ck_assert_int_eq(reserve(64 * MIB, WAIT_MS), GPUMEM_E_LIMIT);
        refusal = refusal_of(client);
        ck_assert_int_eq(refusal.code, GPUMEM_E_LIMIT);
        ck_assert_uint_eq(refusal.n_bytes, 64 * MIB);
        must_reserve(32 * MIB);
        ck_assert_int_eq(gpumem_set_limit(client, GPUMEM_DEVICE, 0, GPUMEM_NO_LIMIT), 0);
        ck_assert_int_eq(reserve(512 * MIB, WAIT_MS), GPUMEM_E_TOO_LARGE);
        ck_assert_int_eq(gpumem_reserve(client, 7, MIB, 0), GPUMEM_E_NO_POOL);
        must_say("CUDA device 7; it has pools for 0");
        ck_assert_int_eq(gpumem_reserve(client, GPUMEM_NEAREST, 32 * MIB, 0), 0);
        must_reserve(0);
}

TEST(it_outlives_the_daemon)
{
        void *all;

        must_reserve(64 * MIB);
        daemon_kill(&gpumemd);
        daemon_restart(&gpumemd, NULL, OPTIONS("--device-bytes", "256MiB"));
        all = must_alloc(GPUMEM_DEVICE, 64 * MIB);
        ck_assert_uint_eq(device_stats().n_misses, 0);
        /* Something that meets the next one. */
        must_free(must_alloc(GPUMEM_DEVICE, 8 * MIB));
        must_free(all);
        ck_assert_int_eq(gpu_synchronize(gpu), 0);
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        ck_assert_uint_eq(device_stats().n_reserved_bytes, 64 * MIB);
        must_reserve(0);
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        ck_assert_uint_eq(device_stats().n_reserved_bytes, 0);
        daemon_await(FIGURE_declared, 0);
}

TEST(with_a_cache_size_it_goes_back_at_its_end)
{
        ck_assert_int_eq(setenv("GPUMEM_CACHE_SIZE", "0", 1), 0);
        solo_close();
        solo_open(getuid());
        must_reserve(64 * MIB);
        must_free(must_alloc(GPUMEM_DEVICE, 64 * MIB));
        must_free(must_alloc(GPUMEM_DEVICE, 16 * MIB));
        ck_assert_uint_eq(device_stats().n_misses, 0);
        ck_assert_uint_eq(device_stats().n_reserved_bytes, 64 * MIB);
        must_reserve(0);
        ck_assert_uint_eq(device_stats().n_reserved_bytes, 0);
}

TESTS_MAIN("reserve", .limit_s = 60, .start = start, .stop = stop)
