/* SPDX-License-Identifier: Apache-2.0 */
/* A process that frees much and then does nothing keeps at most the threshold of each stream from others. */
#include "tests/live/support/world.h"
#include "tests/live/worlds/holder.h"

#define POOL      (1280 * MIB)
#define BURST     GIB
#define THRESHOLD (64 * MIB)
/* Of a block, which is idle only as a whole. */
#define EDGE    (12 * MIB)
#define PIECE   (16 * MIB)
#define LONG_MS 20000

static struct holder one, other;

static void start(void)
{
        daemon_start(&gpumemd, "devices=1,bytes=1536MiB", OPTIONS("--device-bytes", "1280MiB"));
        ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
        holder_start(&one);
        holder_start(&other);
}

static void stop(void)
{
        holder_end(&one);
        holder_end(&other);
        gpumemd_stop_uncharged();
}

/* All but the threshold of each stream, and blocks with live allocations. */
static void check_others(unsigned n_streams, unsigned n_times)
{
        uint64_t n_bytes = POOL - n_streams * (THRESHOLD + EDGE) - holder_keep(&one, n_streams);

        holder_burst(&one, BURST, n_times);
        for (uint64_t n_got = 0; n_got + PIECE <= n_bytes; n_got += PIECE)
                ck_assert_int_eq(holder_alloc(&other, PIECE, LONG_MS), 0);
        holder_check(&other);
}

TEST(of_a_burst_others_have_all_but_the_threshold, .to = 2)
{
        check_others(_i ? HOLDER_STREAMS : 1, 1);
}

/* Frequent records without a use make records rarer; when it matters, there is one again. */
TEST(of_the_last_of_many_too, .to = 2)
{
        check_others(_i ? HOLDER_STREAMS : 1, 10);
}

/* The thread that holds the pool's lock is slow or does not run: the last free of a sequence is recorded
 * all the same. */
TEST(while_others_look_too, NEEDS_EMULATOR)
{
        daemon_fault(&gpumemd, one.pid, "delay=cuEventQuery:3000");
        check_others(1, 10);
}

TESTS_MAIN("quiet", .limit_s = 120, .start = start, .stop = stop)
