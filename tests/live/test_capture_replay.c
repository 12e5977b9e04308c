/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs read and write right bytes, however often they run and whatever others do meanwhile. */
#include <stdlib.h>

#include "base/err.h"
#include "tests/live/capture_world.h"
#include "tests/live/churn.h"
#include "tests/suite.h"

#define N_GRAPHS 3
#define N_ROUNDS 40

struct work {
        CUgraph graph;
        void *result;
        unsigned char byte;
};

/* Through memory of the graph's own, freed and had again on the way, in two branches. */
static void capture(struct work *work, unsigned char byte)
{
        void *first, *second;

        work->byte = byte;
        work->result = world_must_alloc(side, N_BYTES);
        capturer_begin(&capturer, captured, GLOBAL);
        first = world_must_alloc(captured, N_BYTES);
        world_fill(first, (unsigned char)~byte, N_BYTES, captured);
        world_must_free(first, captured);
        first = world_must_alloc(captured, N_BYTES / 2);
        world_fill(first, byte, N_BYTES / 2, captured);
        world_order(branch, captured);
        second = world_must_alloc(branch, N_BYTES / 2);
        world_copy(second, first, N_BYTES / 2, branch);
        world_copy((char *)work->result + N_BYTES / 2, second, N_BYTES / 2, branch);
        world_must_free(second, branch);
        world_copy(work->result, first, N_BYTES / 2, captured);
        world_order(captured, branch);
        world_must_free(first, captured);
        work->graph = capturer_end(&capturer, captured);
}

static void replay(const struct work *work)
{
        world_fill(work->result, 0, N_BYTES, captured);
        capturer_replay(&capturer, work->graph, captured);
        world_check(work->result, work->byte, N_BYTES);
}

TEST(a_replay_is_right_while_others_churn)
{
        struct work works[N_GRAPHS];

        churn_begin(CHURN_THREADS_MAX);
        for (unsigned i = 0; i < N_GRAPHS; i++)
                capture(&works[i], (unsigned char)(0x51 + i));
        for (unsigned i = 0; i < N_ROUNDS; i++) {
                struct work *work = &works[i % N_GRAPHS];

                ck_assert_int_eq(holder_alloc(&holder, CHURN_BYTES, LONG_MS), 0);
                replay(work);
                holder_check(&holder);
                holder_free_all(&holder);
                if (i % 8 == 7) {
                        capturer_destroy(&capturer, work->graph);
                        world_must_free(work->result, captured);
                        capture(work, (unsigned char)(0x71 + i));
                }
        }
        churn_end();
        for (unsigned i = 0; i < N_GRAPHS; i++) {
                replay(&works[i]);
                capturer_destroy(&capturer, works[i].graph);
                world_must_free(works[i].result, side);
        }
        world_everything_is_free();
}

TESTS_MAIN("replay", .limit_s = 120, .start = world_start, .stop = world_stop)
