/* SPDX-License-Identifier: Apache-2.0 */
/* Frees in streams that capture, of memory from elsewhere: they are over when the capture is. */
#include <stdlib.h>

#include "base/err.h"
#include "tests/live/capture_world.h"
#include "tests/live/daemon.h"
#include "tests/suite.h"

static void is_not_ours(void *pointer)
{
        struct gpumem_info info = {.struct_size = sizeof(info)};

        ck_assert_int_eq(gpumem_free(client, pointer, side), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(gpumem_free(client, pointer, captured), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(gpumem_free_sync(client, pointer), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(gpumem_record_use(client, pointer, side), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(gpumem_describe(client, pointer, &info), GPUMEM_E_NOT_OURS);
}

static void await_allocated(uint64_t n_bytes)
{
        for (unsigned i = 0; i < 2000 && world_stats().n_allocated_bytes != n_bytes; i++)
                sleep_ms(10);
        ck_assert_uint_eq(world_stats().n_allocated_bytes, n_bytes);
}

/* Of the stream itself before it captured, and of another one. */
TEST(it_is_nobodys_before_the_capture_is_over, .to = 2)
{
        void *freed = world_must_alloc(_i ? side : captured, N_BYTES), *others[3];
        CUgraph graph;

        capturer_begin(&capturer, captured, GLOBAL);
        world_fill(freed, 0x11, N_BYTES, captured);
        world_must_free(freed, captured);
        is_not_ours(freed);
        others[0] = world_must_alloc(captured, N_BYTES);
        others[1] = world_must_alloc(side, N_BYTES);
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        ck_assert_uint_eq(world_stats().n_allocated_bytes, 3 * N_BYTES);
        graph = capturer_end(&capturer, captured);
        others[2] = world_must_alloc(captured, N_BYTES);
        for (unsigned i = 0; i < ARRAY_SIZE(others); i++) {
                /* The last one came when it was over: it may have the memory. */
                if (i < 2)
                        ck_assert_ptr_ne(others[i], freed);
                world_must_free(others[i], side);
        }
        await_allocated(0);
        capturer_destroy(&capturer, graph);
        world_everything_is_free();
}

/* What the stream did before it captured, and does after, comes before the free. */
TEST(it_is_ordered_in_the_stream_then)
{
        void *freed = world_must_alloc(side, N_BYTES), *next;
        CUgraph graph;

        gate_hold(&gate, captured);
        world_fill(freed, 0x11, N_BYTES, captured);
        capturer_begin(&capturer, captured, GLOBAL);
        world_must_free(freed, captured);
        graph = capturer_end(&capturer, captured);
        next = world_must_alloc(captured, N_BYTES);
        world_must_free(next, captured);
        for (unsigned i = 0; i < 4; i++)
                ck_assert_ptr_ne(world_must_alloc(side, N_BYTES), freed);
        is_not_ours(freed);
        gate_open(&gate);
        await_allocated(4 * N_BYTES);
        next = world_must_alloc(side, N_BYTES);
        world_fill(next, 0x22, N_BYTES, side);
        world_check(next, 0x22, N_BYTES);
        capturer_destroy(&capturer, graph);
}

/* Branches are not ordered: what one frees of another's is nobody's in that capture. */
TEST(a_branch_frees_anothers)
{
        void *freed, *next;
        CUgraph graph;

        capturer_begin(&capturer, captured, GLOBAL);
        freed = world_must_alloc(captured, N_BYTES);
        world_fill(freed, 0x11, N_BYTES, captured);
        world_order(branch, captured);
        world_must_free(freed, branch);
        is_not_ours(freed);
        next = world_must_alloc(captured, N_BYTES);
        ck_assert_ptr_ne(next, freed);
        world_must_free(next, captured);
        next = world_must_alloc(branch, N_BYTES);
        ck_assert_ptr_ne(next, freed);
        world_must_free(next, branch);
        world_order(captured, branch);
        graph = capturer_end(&capturer, captured);
        capturer_replay(&capturer, graph, captured);
        next = world_must_alloc(branch, N_BYTES);
        world_must_free(next, branch);
        await_allocated(0);
        capturer_destroy(&capturer, graph);
        world_everything_is_free();
}

/* Nobody meets the stream again: ended in order, lost, or destroyed while it captured. */
TEST(a_stream_that_is_not_met_again_keeps_nothing, .to = 3)
{
        void *freed = world_must_alloc(side, MOST), *next;
        CUgraph graph;

        capturer_begin(&capturer, captured, GLOBAL);
        world_must_free(freed, captured);
        if (_i == 0)
                graph = capturer_end(&capturer, captured);
        if (_i == 1) {
                ck_assert_int_ne((int)cuda.cuStreamQuery(captured), CUDA_SUCCESS);
                ck_assert_int_ne((int)capturer.end(captured, &graph), CUDA_SUCCESS);
        }
        ck_assert_int_eq(CUDA_CALL(&cuda, cuStreamDestroy, captured), 0);
        if (_i == 0)
                capturer_destroy(&capturer, graph);
        next = world_must_alloc(side, MOST);
        world_must_free(next, side);
        world_everything_is_free();
}

/* It is the same with streams that are recorded, and with what is not allocated at all. */
TEST(other_streams_are_waited_for_too)
{
        void *freed = world_must_alloc(side, N_BYTES), *next;
        CUgraph graph;

        gate_hold(&gate, branch);
        ck_assert_int_eq(gpumem_record_use(client, freed, branch), 0);
        capturer_begin(&capturer, captured, GLOBAL);
        ck_assert_int_eq(gpumem_free(client, (char *)freed + 512, captured), GPUMEM_E_NOT_OURS);
        world_must_free(freed, captured);
        graph = capturer_end(&capturer, captured);
        capturer_destroy(&capturer, graph);
        next = world_must_alloc(captured, N_BYTES);
        world_must_free(next, captured);
        is_not_ours(freed);
        gate_open(&gate);
        await_allocated(0);
}

TESTS_MAIN("frees", .limit_s = 120, .start = world_start, .stop = world_stop)
