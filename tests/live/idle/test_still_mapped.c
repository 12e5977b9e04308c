/* SPDX-License-Identifier: Apache-2.0 */
/* A process that still maps a revoked block gets it back without a driver call. */
#include "client/blocks/retained.h"
#include "tests/live/support/calls.h"
#include "tests/live/support/world.h"
#include "tests/live/worlds/holder.h"

/* Of 256 MiB: at most what is kept, and too much for two. */
#define MUCH (120 * MIB)

#define LONG_MS 20000

static struct holder one, other, third;

static void start(void)
{
        daemon_start(&gpumemd, "devices=1,bytes=288MiB", OPTIONS("--device-bytes", "256MiB"));
        ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
        holder_start(&one);
        holder_start(&other);
        holder_start(&third);
}

static void stop(void)
{
        holder_end(&one);
        holder_end(&other);
        holder_end(&third);
        gpumemd_stop_uncharged();
}

/* Allocated and freed: idle. */
static void have_idle(struct holder *holder, uint64_t n_bytes)
{
        ck_assert_int_eq(holder_alloc(holder, n_bytes, 0), 0);
        holder_free_all(holder);
        daemon_await(FIGURE_idle, n_bytes);
}

/* The other process gets the idle blocks, uses them and frees them. */
static void take_over(uint64_t n_bytes)
{
        ck_assert_int_eq(holder_alloc(&other, n_bytes, 0), 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_creates), daemon_figure(FIGURE_blocks));
        ck_assert_uint_gt(daemon_figure(FIGURE_revocations), 0);
        holder_check(&other);
        holder_free_all(&other);
        daemon_await(FIGURE_idle, n_bytes);
}

static void pass_on(uint64_t n_bytes)
{
        have_idle(&one, n_bytes);
        take_over(n_bytes);
}

/* Repeated if needed: on a busy machine a process may be slower than its blocks are kept. */
#define TRIES 50

TEST(what_was_anothers_comes_back_known)
{
        uint64_t n_calls = 0, n_known = 0;
        unsigned i;

        for (i = 0; i < TRIES; i++) {
                pass_on(MUCH);
                n_calls = holder_driver_calls(&one);
                n_known = daemon_figure(FIGURE_known_grants);
                ck_assert_int_eq(holder_alloc(&one, MUCH, 0), 0);
                holder_check(&one);
                if (holder_driver_calls(&one) == n_calls)
                        break;
                holder_free_all(&one);
        }
        ck_assert_uint_lt(i, TRIES);
        ck_assert_uint_eq(daemon_figure(FIGURE_known_grants),
                          n_known + daemon_figure(FIGURE_blocks));
        ck_assert_uint_eq(daemon_figure(FIGURE_creates), daemon_figure(FIGURE_blocks));
}

/* In blocks of another size, more than fits beside the others' memory. */
#define SMALL   (4 * MIB)
#define N_SMALL 50

static int alloc_small(uint32_t wait_ms)
{
        int r = 0;

        for (unsigned i = 0; i < N_SMALL && !r; i++)
                r = holder_alloc(&third, SMALL, wait_ms);
        return r;
}

/* It goes back to the driver, and is unmapped for that. */
TEST(what_is_wanted_elsewhere_is_unmapped)
{
        pass_on(MUCH);
        ck_assert_int_eq(alloc_small(LONG_MS), 0);
        holder_check(&third);
        ck_assert_uint_gt(daemon_figure(FIGURE_notices), 0);
        daemon_await(FIGURE_lingering, 0);
        holder_free_all(&third);
}

/* With a cache size no look at the pool would unmap it later. */
TEST(a_cache_size_unmaps_what_is_anothers)
{
        struct gpu *gpu = use_gpu();
        struct gpumem_client *client = connect_client();
        struct gpumem_request request = request_in(gpu_stream(gpu), GPUMEM_DEVICE, MUCH);
        void *pointer;

        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), 0);
        ck_assert_int_eq(gpumem_free(client, pointer, request.stream), 0);
        daemon_await(FIGURE_idle, MUCH);
        ck_assert_int_eq(holder_alloc(&other, MUCH, 0), 0);
        ck_assert_uint_gt(daemon_figure(FIGURE_revocations), 0);
        ck_assert_int_eq(gpumem_set_cache_size(client, GIB), 0);
        holder_free_all(&other);
        ck_assert_int_eq(alloc_small(LONG_MS), 0);
        daemon_await(FIGURE_lingering, 0);
        holder_free_all(&third);
        gpumem_disconnect(client);
        gpu_free(gpu);
}

/* One after the other, until one is refused because of lingering memory. A daemon that stands still itself
 * refuses late requests before it has searched. */
static void alloc_until_much_lingers(void)
{
        int r = 0;

        for (unsigned i = 0; i < N_SMALL && (!r || !daemon_figure(FIGURE_lingering)); i++)
                r = holder_alloc(&third, SMALL, 200);
        ck_assert_int_eq(r, GPUMEM_E_TIMED_OUT);
        ck_assert_uint_gt(daemon_figure(FIGURE_lingering), 0);
}

/* Memory that it should unmap lingers, charged to it, until it can. It is stopped before it may see the
 * request. */
TEST(what_a_stopped_process_keeps_lingers)
{
        have_idle(&one, MUCH);
        holder_stop(&one);
        take_over(MUCH);
        alloc_until_much_lingers();
        holder_continue(&one);
        daemon_await(FIGURE_lingering, 0);
        ck_assert_int_eq(holder_alloc(&third, SMALL, LONG_MS), 0);
        holder_check(&third);
}

/* Also when the process that has the bytes now is killed while it uses them. */
TEST(what_the_dead_had_is_unmapped)
{
        have_idle(&one, MUCH);
        ck_assert_int_eq(holder_alloc(&other, MUCH, 0), 0);
        ck_assert_uint_gt(daemon_figure(FIGURE_revocations), 0);
        holder_kill(&other);
        daemon_await(FIGURE_reserved, 0);
        holder_start(&other);
        ck_assert_int_eq(holder_alloc(&one, MUCH, 0), 0);
        holder_check(&one);
        ck_assert_uint_eq(daemon_figure(FIGURE_known_grants), 0);
}

/* Each process gets the block that the other one had last. */
TEST(it_goes_to_and_fro)
{
        uint64_t n_calls, n_known;
        unsigned i;

        for (i = 0; i < TRIES; i++) {
                pass_on(MUCH);
                n_calls = holder_driver_calls(&one) + holder_driver_calls(&other);
                n_known = daemon_figure(FIGURE_known_grants);
                for (unsigned j = 0; j < 3; j++)
                        pass_on(MUCH);
                if (holder_driver_calls(&one) + holder_driver_calls(&other) == n_calls)
                        break;
        }
        ck_assert_uint_lt(i, TRIES);
        ck_assert_uint_eq(daemon_figure(FIGURE_known_grants),
                          n_known + 6 * daemon_figure(FIGURE_blocks));
}

TESTS_MAIN("still_mapped", .limit_s = 120, .start = start, .stop = stop)
