/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of one pool hold the memory of one of them, and their replays are right. */
#include "base/err.h"
#include "tests/live/capture_world.h"
#include "tests/live/churn.h"
#include "tests/suite.h"

#define N_GRAPHS 20
#define N_ROUNDS 3

struct work {
        CUgraph graph;
        void *result;
        unsigned char byte;
};

/* Through memory of the graph's own in two branches; a part of the result is the graph's too. */
static void capture(struct work *work, CUstream stream, unsigned char byte)
{
        void *first, *second;

        work->byte = byte;
        capturer_begin(&capturer, stream, GLOBAL);
        first = world_must_alloc(stream, N_BYTES);
        world_fill(first, byte, N_BYTES, stream);
        world_order(branch, stream);
        second = world_must_alloc(branch, N_BYTES);
        world_copy(second, first, N_BYTES, branch);
        world_order(stream, branch);
        work->result = world_must_alloc(stream, 64 * KIB);
        world_copy(work->result, second, 64 * KIB, stream);
        world_must_free(second, branch);
        world_must_free(first, stream);
        work->graph = capturer_end(&capturer, stream);
}

static uint64_t capture_all(struct work *works, uint64_t *ret_first_bytes)
{
        uint64_t n_before = world_stats().n_reserved_bytes;

        for (unsigned i = 0; i < N_GRAPHS; i++) {
                capture(&works[i], i % 2 ? captured : side, (unsigned char)(0x21 + i));
                if (i == 0)
                        *ret_first_bytes = world_stats().n_reserved_bytes - n_before;
        }
        return world_stats().n_reserved_bytes - n_before;
}

static void destroy_all(struct work *works)
{
        for (unsigned i = 0; i < N_GRAPHS; i++) {
                capturer_destroy(&capturer, works[i].graph);
                world_must_free(works[i].result, side);
        }
}

/* One after another, as a step of an engine replays them. */
static void replay_all(const struct work *works)
{
        for (unsigned i = 0; i < N_GRAPHS; i++) {
                capturer_replay(&capturer, works[i].graph, captured);
                world_check(works[i].result, works[i].byte, 64 * KIB);
        }
        for (unsigned i = 0; i < N_GRAPHS; i++)
                world_check(works[i].result, works[i].byte, 64 * KIB);
}

TEST(twenty_graphs_hold_the_memory_of_one)
{
        struct work works[N_GRAPHS];
        uint64_t id = world_begin_pool(0, captured), n_first, n_all;

        ck_assert_uint_eq(world_begin_pool(id, side), id);
        n_all = capture_all(works, &n_first);
        ck_assert_uint_ge(n_first, 2 * N_BYTES);
        /* The results are all there. */
        ck_assert_uint_le(n_all, n_first + N_GRAPHS * 64 * KIB + 2 * MIB);
        world_end_pool(id, captured);
        world_end_pool(id, side);
        destroy_all(works);
        world_everything_is_free();
}

TEST(without_a_pool_each_holds_its_own)
{
        struct work works[N_GRAPHS];
        uint64_t n_first, n_all = capture_all(works, &n_first);

        ck_assert_uint_ge(n_all, N_GRAPHS * 2 * N_BYTES);
        destroy_all(works);
        world_everything_is_free();
}

TEST(replays_are_right_while_others_churn)
{
        struct work works[N_GRAPHS];
        uint64_t id = world_begin_pool(0, captured), n_first;

        (void)world_begin_pool(id, side);
        churn_begin(1);
        (void)capture_all(works, &n_first);
        world_end_pool(id, captured);
        world_end_pool(id, side);
        for (unsigned i = 0; i < N_ROUNDS; i++) {
                ck_assert_int_eq(holder_alloc(&holder, CHURN_BYTES, LONG_MS), 0);
                replay_all(works);
                holder_check(&holder);
                holder_free_all(&holder);
        }
        churn_end();
        replay_all(works);
        destroy_all(works);
        world_everything_is_free();
}

TESTS_MAIN("replay", .limit_s = 120, .start = world_start, .stop = world_stop)
