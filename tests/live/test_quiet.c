/* SPDX-License-Identifier: Apache-2.0 */
/* A process that frees much and goes quiet: no more than the threshold a stream is kept from others. */
#include <stdlib.h>

#include "base/size.h"
#include "tests/live/daemon.h"
#include "tests/live/holder.h"
#include "tests/suite.h"

#define POOL      (1280 * MIB)
#define BURST     GIB
#define THRESHOLD (64 * MIB)
/* Of a block: it is idle as a whole. */
#define EDGE    (12 * MIB)
#define PIECE   (16 * MIB)
#define LONG_MS 20000

static struct daemon gpumemd;
static struct holder one, other;

static void start(void)
{
        static const char *const options[] = {"--device-bytes", "1280MiB", NULL};

        daemon_start(&gpumemd, "devices=1,bytes=1536MiB", options);
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

/* All but the threshold a stream, and blocks in which something is allocated. */
static void check_others(unsigned n_streams, uint64_t n_kept_bytes)
{
        uint64_t n_bytes = POOL - n_streams * (THRESHOLD + EDGE) - n_kept_bytes;

        for (uint64_t n_got = 0; n_got + PIECE <= n_bytes; n_got += PIECE)
                ck_assert_int_eq(holder_alloc(&other, PIECE, LONG_MS), 0);
        holder_check(&other);
}

TEST(of_a_burst_others_have_all_but_the_threshold, .to = 2)
{
        unsigned n_streams = _i ? HOLDER_STREAMS : 1;
        uint64_t n_kept_bytes = holder_keep(&one, n_streams);

        holder_burst(&one, BURST, 1);
        check_others(n_streams, n_kept_bytes);
}

/* What was recorded often, and for nothing, is recorded again when it matters. */
TEST(of_the_last_of_many_too, .to = 2)
{
        unsigned n_streams = _i ? HOLDER_STREAMS : 1;
        uint64_t n_kept_bytes = holder_keep(&one, n_streams);

        holder_burst(&one, BURST, 10);
        check_others(n_streams, n_kept_bytes);
}

/* Whoever holds the pool's lock is slow, or not let run: the last free of all that falls has its record. */
TEST(while_others_look_too, NEEDS_EMULATOR)
{
        uint64_t n_kept_bytes = holder_keep(&one, 1);

        daemon_fault(&gpumemd, one.pid, "delay=cuEventQuery:3000");
        holder_burst(&one, BURST, 10);
        check_others(1, n_kept_bytes);
}

TESTS_MAIN("quiet", .limit_s = 120, .start = start, .stop = stop)
