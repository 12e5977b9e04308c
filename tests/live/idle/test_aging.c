/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a living process has used, and does not use any more, goes back to the driver by itself. */
#include "base/err.h"
#include "tests/live/support/links.h"
#include "tests/live/support/world.h"
#include "tests/live/worlds/solo.h"

#define N_PIECES    500
#define PIECE_BYTES (2 * MIB + 512)

static void start(const char *configuration)
{
        daemon_start_configured(&gpumemd, "devices=1,bytes=4GiB", OPTIONS("--log", "info"),
                                configuration);
        /* The tests' default is that a client keeps nothing. */
        ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
        solo_open(getuid());
}

static void stop(void)
{
        solo_close();
        daemon_stop(&gpumemd);
}

static void burst(enum gpumem_kind kind, void (*give)(void *pointer))
{
        void *pieces[N_PIECES];

        for (unsigned i = 0; i < N_PIECES; i++)
                pieces[i] = must_alloc(kind, PIECE_BYTES);
        ck_assert_uint_ge(daemon_figure(FIGURE_reserved), N_PIECES * PIECE_BYTES);
        for (unsigned i = 0; i < N_PIECES; i++)
                give(pieces[i]);
}

/* But what is in use. */
TEST(after_a_burst_nothing_stays)
{
        void *kept;

        start("{\"pools\": [{\"device\": 0, \"return_after_seconds\": 1}]}");
        kept = must_alloc(GPUMEM_DEVICE, 64 * MIB);
        burst(GPUMEM_DEVICE, must_free);
        daemon_await(FIGURE_reserved, 64 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_leased), 64 * MIB);
        must_free(kept);
        daemon_await(FIGURE_reserved, 0);
        stop();
}

static void free_when_work_is_over(void *pointer)
{
        ck_assert_int_eq(gpumem_free_sync(client, pointer), 0);
}

/* No mark of a stream is needed, so there is no tail. */
TEST(after_frees_that_wait_nothing_stays)
{
        start("{\"pools\": [{\"device\": 0, \"return_after_seconds\": 1}]}");
        burst(GPUMEM_DEVICE, free_when_work_is_over);
        daemon_await(FIGURE_reserved, 0);
        free_when_work_is_over(must_alloc(GPUMEM_DEVICE, MIB));
        daemon_await(FIGURE_reserved, 0);
        stop();
}

/* What a size kept in the process is idle as soon as there is none. */
TEST(a_cache_without_a_size_goes_back)
{
        start("{\"pools\": [{\"device\": 0, \"return_after_seconds\": 1}]}");
        ck_assert_int_eq(gpumem_set_cache_size(client, 4 * GIB), 0);
        burst(GPUMEM_DEVICE, must_free);
        ck_assert_int_eq(gpumem_set_cache_size(client, GPUMEM_NO_LIMIT), 0);
        daemon_await(FIGURE_reserved, 0);
        stop();
}

/* It serves any process of the tenant then. */
TEST(what_is_to_stay_is_cached)
{
        start("{\"pools\": [{\"device\": 0, \"return_after_seconds\": 1,"
              " \"keep_cached_bytes\": \"256MiB\"}]}");
        burst(GPUMEM_DEVICE, free_when_work_is_over);
        daemon_await(FIGURE_leased, 0);
        daemon_await(FIGURE_lingering, 0);
        ck_assert_uint_le(daemon_figure(FIGURE_cached), 256 * MIB);
        ck_assert_uint_gt(daemon_figure(FIGURE_cached), 192 * MIB);
        stop();
}

static void expect_free(void)
{
        uint64_t n_free_bytes = daemon_first_figure(FIGURE_free);
        uint64_t n_largest_bytes = daemon_first_figure(FIGURE_largest_free);

        ck_assert_uint_eq(n_free_bytes, daemon_first_figure(FIGURE_reserved));
        ck_assert_uint_ge(n_largest_bytes, 2 * MIB);
        ck_assert_uint_eq(daemon_first_figure(FIGURE_fragmentation),
                          1000 - n_largest_bytes * 1000 / n_free_bytes);
}

TEST(without_a_limit_of_time_it_stays)
{
        start("{\"pools\": [{\"device\": 0, \"return_after_seconds\": 31536000}]}");
        burst(GPUMEM_DEVICE, free_when_work_is_over);
        AWAIT(daemon_figure(FIGURE_idle) >= N_PIECES * PIECE_BYTES);
        expect_free();
        ck_assert_uint_eq(daemon_figure(FIGURE_aged), 0);
        daemon_configure(&gpumemd, "{\"pools\": [{\"device\": 0, \"return_after_seconds\": 1}]}");
        daemon_await(FIGURE_reserved, 0);
        ck_assert_uint_ge(daemon_first_figure(FIGURE_leased_peak), N_PIECES * PIECE_BYTES);
        ck_assert_uint_gt(daemon_figure(FIGURE_aged), 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_free), 0);
        stop();
}

static void keep_free(struct link *admin, uint64_t n_bytes)
{
        const struct message_set_limits change = {
                .scope = PROTO_LIMIT_OF_POOL, .kind = PROTO_LIMIT_FREE_BYTES, .max = n_bytes};

        ck_assert_int_eq(set_limit_over(admin, &change, NULL), 0);
}

/* However often that is: a look that is due is not put off. */
TEST(changes_of_limits_hold_no_look_up)
{
        struct link *admin;

        start("{\"pools\": [{\"device\": 0, \"return_after_seconds\": 1}]}");
        admin = open_admin_link("admin");
        burst(GPUMEM_DEVICE, free_when_work_is_over);
        for (uint64_t n = 1; daemon_figure(FIGURE_reserved); n++) {
                keep_free(admin, (n & 1) * MIB);
                sleep_ms(20);
        }
        link_free(admin);
        stop();
}

TESTS_MAIN("aging", .limit_s = 60)
