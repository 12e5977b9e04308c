/* SPDX-License-Identifier: Apache-2.0 */
/* A block of CUDA IPC handles that a process is given anew while it has it open for a lease that is over.
 * It comes as a fd, since the process never sees what it keeps. */
#include <stdlib.h>
#include <unistd.h>

#include "base/size.h"
#include "client/blocks/retained.h"
#include "tests/demo/gpu.h"
#include "tests/live/holder.h"
#include "tests/live/legacy_world.h"
#include "tests/suite.h"

/* There is no room for two: else each would get one of its own when they take turns so fast. */
#define MUCH    (144 * MIB)
#define N_TIMES 5

/* A GPU's other users take and give memory at any time. */
#define TOLERANCE (16 * MIB)

static struct daemon gpumemd;
static struct holder one, other;

/* The linker leads the library's calls here. */
bool __wrap_retained_plan(struct pool *pool, struct set_heap *heap, uint64_t n_bytes,
                          struct placement *ret_placement);
bool __wrap_retained_plan(struct pool *pool, struct set_heap *heap, uint64_t n_bytes,
                          struct placement *ret_placement)
{
        (void)pool;
        (void)heap;
        (void)n_bytes;
        (void)ret_placement;
        return false;
}

static uint64_t used_bytes(struct gpu *gpu)
{
        uint64_t n_free, n_total;

        ck_assert_int_eq(gpu_memory(gpu, &n_free, &n_total), 0);
        return n_total - n_free;
}

static void have_idle(struct holder *holder)
{
        ck_assert_int_eq(holder_alloc(holder, MUCH, 0), 0);
        holder_check(holder);
        holder_free_all(holder);
        daemon_await(FIGURE_idle, MUCH);
}

TEST(it_is_opened_again_and_closed_for_good)
{
        struct gpu *gpu;
        uint64_t n_used;

        legacy_start(&gpumemd, "devices=1,bytes=512MiB", geteuid());
        ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
        holder_start(&one);
        holder_start(&other);
        ck_assert_int_eq(gpu_new(0, &gpu), 0);
        have_idle(&one);
        n_used = used_bytes(gpu);
        for (unsigned i = 0; i < N_TIMES; i++) {
                have_idle(&other);
                have_idle(&one);
        }
        ck_assert_uint_eq(daemon_figure(FIGURE_revocations), 2 * N_TIMES);
        ck_assert_uint_eq(daemon_figure(FIGURE_known_grants), 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_creates), 1);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), MUCH);
        holder_flush(&one);
        holder_flush(&other);
        daemon_await(FIGURE_charged, 0);
        daemon_free_all();
        ck_assert_uint_eq(daemon_figure(FIGURE_reserved), 0);
        /* Closed as often as it was opened, so the driver has it back. */
        ck_assert_uint_le(used_bytes(gpu) + MUCH, n_used + TOLERANCE);
        gpu_free(gpu);
        holder_end(&one);
        holder_end(&other);
        daemon_stop(&gpumemd);
}

TESTS_MAIN("again", .limit_s = 120)
