/* What a process maps still, though it was taken from it, is had back without a call of the driver. */
#include <stdlib.h>

#include "base/size.h"
#include "client/kept.h"
#include "gpumem.h"
#include "tests/live/daemon.h"
#include "tests/live/holder.h"
#include "tests/suite.h"

/* Of 256 MiB: no more than is kept, and too much for two. */
#define MUCH  (120 * MIB)
#define OTHER (100 * MIB)

#define LONG_MS 20000

static struct daemon gpumemd;
static struct holder one, other;

static void start(void)
{
        static const char *const options[] = {"--device-bytes", "256MiB", NULL};

        daemon_start(&gpumemd, "devices=1,bytes=288MiB", options);
        ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
        holder_start(&one);
        holder_start(&other);
}

static void stop(void)
{
        holder_end(&one);
        holder_end(&other);
        daemon_await(FIGURE_charged, 0);
        daemon_stop(&gpumemd);
}

/* Allocated, and not used any more: idle. */
static void have_idle(struct holder *holder, uint64_t n_bytes)
{
        ck_assert_int_eq(holder_alloc(holder, n_bytes, 0), 0);
        holder_free_all(holder);
        daemon_await(FIGURE_idle, n_bytes);
}

/* One's idle blocks are the other's, who has used them and is done. */
static void pass_on(uint64_t n_bytes)
{
        have_idle(&one, n_bytes);
        ck_assert_int_eq(holder_alloc(&other, n_bytes, 0), 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_creates), daemon_figure(FIGURE_blocks));
        ck_assert_uint_gt(daemon_figure(FIGURE_revocations), 0);
        holder_check(&other);
        holder_free_all(&other);
        daemon_await(FIGURE_idle, n_bytes);
}

START_TEST(what_was_anothers_comes_back_known)
{
        uint64_t n_calls, n_blocks;

        pass_on(MUCH);
        n_calls = holder_driver_calls(&one);
        n_blocks = daemon_figure(FIGURE_blocks);
        ck_assert_int_eq(holder_alloc(&one, MUCH, 0), 0);
        holder_check(&one);
        ck_assert_uint_eq(holder_driver_calls(&one), n_calls);
        ck_assert_uint_eq(daemon_figure(FIGURE_known_grants), n_blocks);
        ck_assert_uint_eq(daemon_figure(FIGURE_creates), n_blocks);
}
END_TEST

int main(void)
{
        Suite *suite = suite_create("known");
        TCase *tests = tcase_create("known");

        tcase_set_timeout(tests, 120);
        tcase_add_checked_fixture(tests, start, stop);
        tcase_add_test(tests, what_was_anothers_comes_back_known);
        suite_add_tcase(suite, tests);
        return run_suite(suite);
}
