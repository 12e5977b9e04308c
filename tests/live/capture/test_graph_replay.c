/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs read and write the right bytes, however often they run, and whatever other processes do meanwhile.
 * The graphs of one pool together hold the memory of one of them. */
#include <pthread.h>
#include <stdatomic.h>

#include "tests/live/support/world.h"
#include "tests/live/worlds/capture_world.h"

#define N_GRAPHS     20
#define N_ROUNDS     3
#define RESULT_BYTES (64 * KIB)

/* What each of the other streams has at a time; there is room for them, another process and the graphs. */
#define CHURN_BYTES (8 * MIB)
#define N_CHURNS    2

struct work {
        CUgraph graph;
        void *result;
        unsigned char byte;
};

static struct work works[N_GRAPHS];
static _Atomic bool ending;

/* Writes to all that it gets, and does not run ahead of it. */
static void *churn(void *argument)
{
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        CUstream stream;

        ck_assert_int_eq(gpu_use(gpu), 0);
        DRIVER(cuThreadExchangeStreamCaptureMode, &mode);
        stream = world_new_stream();
        while (!atomic_load(&ending)) {
                void *pointer = world_must_alloc(stream, CHURN_BYTES);

                world_fill(pointer, 0xee, CHURN_BYTES, stream);
                world_must_free(pointer, stream);
                world_synchronize(stream);
        }
        return argument;
}

/* Through memory of the graph's own, freed and had again on the way, in two branches; a part of the result is the
 * graph's too. */
static void capture(struct work *work, CUstream stream, unsigned char byte)
{
        void *first, *second;

        work->byte = byte;
        capturer_begin(&capturer, stream, GLOBAL);
        first = world_must_alloc(stream, N_BYTES);
        world_fill(first, (unsigned char)~byte, N_BYTES, stream);
        world_must_free(first, stream);
        first = world_must_alloc(stream, N_BYTES);
        world_fill(first, byte, N_BYTES, stream);
        world_order(branch, stream);
        second = world_must_alloc(branch, N_BYTES);
        world_copy(second, first, N_BYTES, branch);
        world_order(stream, branch);
        work->result = world_must_alloc(stream, RESULT_BYTES);
        world_copy(work->result, second, RESULT_BYTES, stream);
        world_must_free(second, branch);
        world_must_free(first, stream);
        work->graph = capturer_end(&capturer, stream);
}

/* Bytes that this took. */
static uint64_t capture_all(uint64_t *ret_first_bytes)
{
        uint64_t n_before = world_stats().n_reserved_bytes;

        for (unsigned i = 0; i < N_GRAPHS; i++) {
                capture(&works[i], i % 2 ? captured : side, (unsigned char)(0x21 + i));
                if (i == 0)
                        *ret_first_bytes = world_stats().n_reserved_bytes - n_before;
        }
        return world_stats().n_reserved_bytes - n_before;
}

static uint64_t begin_pools(void)
{
        uint64_t id = world_begin_pool(0, captured);

        return world_begin_pool(id, side);
}

static void end_pools(uint64_t id)
{
        world_end_pool(id, captured);
        world_end_pool(id, side);
}

static void destroy(struct work *work)
{
        capturer_destroy(&capturer, work->graph);
        world_must_free(work->result, side);
}

static void destroy_all(void)
{
        for (unsigned i = 0; i < N_GRAPHS; i++)
                destroy(&works[i]);
        world_everything_is_free();
}

/* One after another, as a step of an engine replays them. */
static void replay_all(void)
{
        for (unsigned i = 0; i < N_GRAPHS; i++) {
                world_fill(works[i].result, 0, RESULT_BYTES, captured);
                capturer_replay(&capturer, works[i].graph, captured);
                world_check(works[i].result, works[i].byte, RESULT_BYTES);
        }
        for (unsigned i = 0; i < N_GRAPHS; i++)
                world_check(works[i].result, works[i].byte, RESULT_BYTES);
}

TEST(twenty_graphs_hold_the_memory_of_one)
{
        uint64_t id = begin_pools(), n_first, n_all = capture_all(&n_first);

        ck_assert_uint_ge(n_first, 2 * N_BYTES);
        /* The results are all there. */
        ck_assert_uint_le(n_all, n_first + N_GRAPHS * RESULT_BYTES + 2 * MIB);
        end_pools(id);
        destroy_all();
}

TEST(without_a_pool_each_holds_its_own)
{
        uint64_t n_first, n_all = capture_all(&n_first);

        ck_assert_uint_ge(n_all, N_GRAPHS * 2 * N_BYTES);
        destroy_all();
}

/* With a pool and without. */
TEST(replays_are_right_while_others_churn, .to = 2)
{
        uint64_t id = _i ? begin_pools() : 0, n_first;
        pthread_t threads[N_CHURNS];

        atomic_store(&ending, false);
        for (unsigned i = 0; i < N_CHURNS; i++)
                ck_assert_int_eq(pthread_create(&threads[i], NULL, churn, NULL), 0);
        (void)capture_all(&n_first);
        if (id)
                end_pools(id);
        for (unsigned i = 0; i < N_ROUNDS; i++) {
                ck_assert_int_eq(holder_alloc(&holder, CHURN_BYTES, LONG_MS), 0);
                replay_all();
                holder_check(&holder);
                holder_free_all(&holder);
                if (!id) {
                        destroy(&works[i]);
                        capture(&works[i], captured, (unsigned char)(0x71 + i));
                }
        }
        atomic_store(&ending, true);
        for (unsigned i = 0; i < N_CHURNS; i++)
                ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        replay_all();
        destroy_all();
}

TESTS_MAIN("graph replay", .limit_s = 120, .start = world_start, .stop = world_stop)
