/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory of CUDA IPC handles: its blocks go from one process to another as others do, and stay
 * open where registered pinned memory stays registered; what dies takes with it what nobody has open. */
#include <stdlib.h>
#include <unistd.h>

#include "base/size.h"
#include "gpumem.h"
#include "tests/live/holder.h"
#include "tests/live/legacy_world.h"
#include "tests/suite.h"

/* Of 256 MiB: what is looked at when it is freed, and kept; and what there is no room for beside it. */
#define MUCH (80 * MIB)
#define MORE (200 * MIB)

#define LONG_MS 20000

/* On a busy machine a process may be slower than another. */
#define TRIES 50

static struct daemon gpumemd;
static struct holder one, other;

static void start(void)
{
        legacy_start(&gpumemd, "devices=1,bytes=512MiB", geteuid());
        ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
        holder_start(&one);
        holder_start(&other);
}

static void stop(void)
{
        holder_end(&one);
        holder_end(&other);
        daemon_stop_empty(&gpumemd);
}

static void have_idle(struct holder *holder)
{
        ck_assert_int_eq(holder_alloc(holder, MUCH, 0), 0);
        holder_free_all(holder);
        daemon_await(FIGURE_idle, MUCH);
}

TEST(allocations_of_all_sizes_hold_their_bytes)
{
        static const uint64_t n_bytes[] = {1, 512, 100000, 2 * MIB, 5 * MIB + 1, 40 * MIB};

        for (unsigned i = 0; i < 6; i++) {
                ck_assert_int_eq(holder_alloc(&one, n_bytes[i], 0), 0);
                ck_assert_int_eq(holder_alloc(&other, n_bytes[i], 0), 0);
        }
        holder_check(&one);
        holder_check(&other);
        holder_free_all(&one);
        holder_check(&other);
}

TEST(it_is_anothers_while_its_holder_stands_still)
{
        have_idle(&one);
        holder_stop(&one);
        ck_assert_int_eq(holder_alloc(&other, MUCH, 0), 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_creates), 1);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), MUCH);
        holder_check(&other);
        holder_continue(&one);
        ck_assert_int_eq(holder_alloc(&one, MUCH / 2, 0), 0);
        holder_check(&one);
        holder_check(&other);
}

TEST(it_comes_back_known)
{
        uint64_t n_calls = 0;
        unsigned i;

        for (i = 0; i < TRIES; i++) {
                have_idle(&one);
                n_calls = holder_driver_calls(&one);
                have_idle(&other);
                ck_assert_int_eq(holder_alloc(&one, MUCH, 0), 0);
                holder_check(&one);
                if (holder_driver_calls(&one) == n_calls)
                        break;
                holder_free_all(&one);
        }
        ck_assert_uint_lt(i, TRIES);
        ck_assert_uint_ge(daemon_figure(FIGURE_known_grants), 1);
        ck_assert_uint_eq(daemon_figure(FIGURE_creates), 1);
}

TEST(what_is_open_lingers_until_it_is_flushed)
{
        uint64_t n_calls;

        have_idle(&one);
        ck_assert_int_eq(holder_alloc(&other, MUCH, 0), 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_revocations), 1);
        holder_kill(&other);
        daemon_await(FIGURE_releases, 1);
        daemon_await(FIGURE_lingering, MUCH);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), MUCH);
        n_calls = holder_driver_calls(&one);
        /* What else is allocated and freed leaves it open. */
        ck_assert_int_eq(holder_alloc(&one, 2 * MIB, 0), 0);
        ck_assert_uint_eq(holder_driver_calls(&one), n_calls + 1);
        holder_free_all(&one);
        ck_assert_uint_eq(daemon_figure(FIGURE_lingering), MUCH);
        holder_flush(&one);
        daemon_await(FIGURE_lingering, 0);
        daemon_await(FIGURE_charged, 0);
        ck_assert_uint_eq(holder_driver_calls(&one), n_calls + 3);
        ck_assert_int_eq(holder_alloc(&one, MORE, 0), 0);
        holder_check(&one);
        holder_start(&other);
}

TEST(who_would_be_refused_closes_its_own)
{
        have_idle(&one);
        ck_assert_int_eq(holder_alloc(&one, MORE, 0), 0);
        holder_check(&one);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), MORE);
}

TEST(a_killed_holder_leaves_room)
{
        ck_assert_int_eq(holder_alloc(&one, MORE, 0), 0);
        ck_assert_int_eq(holder_alloc(&other, MORE, 0), GPUMEM_E_REFUSED);
        holder_kill(&one);
        ck_assert_int_eq(holder_alloc(&other, MORE, LONG_MS), 0);
        holder_check(&other);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), MORE);
        holder_start(&one);
}

TEST(a_killed_daemon_takes_only_what_nobody_has_open)
{
        ck_assert_int_eq(holder_alloc(&one, MUCH, 0), 0);
        ck_assert_int_eq(holder_alloc(&other, MUCH, 0), 0);
        holder_free_all(&other);
        holder_flush(&other);
        daemon_await(FIGURE_cached, MUCH);
        daemon_kill(&gpumemd);
        holder_check(&one);
        legacy_restart(&gpumemd);
        ck_assert_int_eq(holder_alloc(&one, 2 * MIB, LONG_MS), 0);
        daemon_await(FIGURE_declared, MUCH);
        holder_check(&one);
        ck_assert_int_eq(holder_alloc(&other, MUCH, LONG_MS), 0);
        holder_check(&other);
        holder_free_all(&one);
        holder_flush(&one);
        daemon_await(FIGURE_declared, 0);
}

TESTS_MAIN("legacy", .limit_s = 120, .start = start, .stop = stop)
