/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is allocated while a stream captures belongs to the graph, and to whoever has not freed it. */
#include <string.h>

#include <stdlib.h>

#include "base/err.h"
#include "tests/live/capture_world.h"
#include "tests/live/daemon.h"
#include "tests/suite.h"

TEST(what_is_freed_in_a_capture_is_had_again_there)
{
        void *first, *second, *result = world_must_alloc(side, N_BYTES);
        uint64_t n_hits;
        CUgraph graph;

        capturer_begin(&capturer, captured, GLOBAL);
        first = world_must_alloc(captured, N_BYTES);
        world_fill(first, 0x11, N_BYTES, captured);
        world_copy(result, first, N_BYTES / 2, captured);
        world_must_free(first, captured);
        n_hits = world_stats().n_hits;
        second = world_must_alloc(captured, N_BYTES);
        ck_assert_uint_eq(world_stats().n_hits, n_hits + 1);
        ck_assert_ptr_eq(first, second);
        world_fill(second, 0x22, N_BYTES, captured);
        world_copy((char *)result + N_BYTES / 2, second, N_BYTES / 2, captured);
        world_must_free(second, captured);
        graph = capturer_end(&capturer, captured);
        for (unsigned i = 0; i < 3; i++) {
                world_fill(result, 0, N_BYTES, side);
                ck_assert_int_eq(CUDA_CALL(&cuda, cuStreamSynchronize, side), 0);
                capturer_replay(&capturer, graph, captured);
                world_check(result, 0x11, N_BYTES / 2);
                world_check((char *)result + N_BYTES / 2, 0x22, N_BYTES / 2);
        }
        capturer_destroy(&capturer, graph);
        world_must_free(result, side);
        world_everything_is_free();
}

/* Neither another stream, nor the same one when it does not capture, nor its next capture. */
TEST(it_is_nobody_elses)
{
        void *freed, *others[4];
        CUgraph graphs[2];

        capturer_begin(&capturer, captured, GLOBAL);
        freed = world_must_alloc(captured, N_BYTES);
        world_must_free(freed, captured);
        others[0] = world_must_alloc(side, N_BYTES);
        world_order(branch, captured);
        others[1] = world_must_alloc(branch, N_BYTES);
        world_order(captured, branch);
        graphs[0] = capturer_end(&capturer, captured);
        others[2] = world_must_alloc(captured, N_BYTES);
        capturer_begin(&capturer, captured, GLOBAL);
        others[3] = world_must_alloc(captured, N_BYTES);
        graphs[1] = capturer_end(&capturer, captured);
        for (unsigned i = 0; i < ARRAY_SIZE(others); i++) {
                ck_assert_ptr_ne(others[i], freed);
                world_must_free(others[i], side);
        }
        capturer_destroy(&capturer, graphs[1]);
        capturer_destroy(&capturer, graphs[0]);
        world_everything_is_free();
}

TEST(it_stays_as_long_as_the_graph, .to = 2)
{
        void *pointer;
        CUgraph graph;

        capturer_begin(&capturer, captured, GLOBAL);
        pointer = world_must_alloc(captured, MOST);
        world_fill(pointer, 0x33, 1024, captured);
        if (_i)
                world_must_free(pointer, captured);
        graph = capturer_end(&capturer, captured);
        if (!_i)
                world_must_free(pointer, side);
        ck_assert_uint_eq(world_stats().n_allocated_bytes, 0);
        sleep_ms(50);
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        ck_assert_int_eq(world_alloc(side, MOST, 0, &pointer), GPUMEM_E_REFUSED);
        ck_assert_int_eq(holder_alloc(&holder, MOST, 50), GPUMEM_E_TIMED_OUT);
        capturer_replay(&capturer, graph, captured);
        capturer_destroy(&capturer, graph);
        world_everything_is_free();
        /* This process too can have it, with no thread's help. */
        pointer = world_must_alloc(side, MOST);
        world_must_free(pointer, side);
}

/* The graph may be destroyed while it runs. */
TEST(it_stays_as_long_as_the_graphs_work)
{
        void *pointer;
        CUgraphExec executable;
        CUgraph graph;

        capturer_begin(&capturer, captured, GLOBAL);
        pointer = world_must_alloc(captured, MOST);
        world_fill(pointer, 0x33, 1024, captured);
        world_must_free(pointer, captured);
        graph = capturer_end(&capturer, captured);
        ck_assert_int_eq(capturer.instantiate(&executable, graph, 0), CUDA_SUCCESS);
        capturer_destroy(&capturer, graph);
        gate_hold(&gate, captured);
        ck_assert_int_eq(capturer.launch(executable, captured), CUDA_SUCCESS);
        ck_assert_int_eq(capturer.destroy_executable(executable), CUDA_SUCCESS);
        ck_assert_int_eq(holder_alloc(&holder, MOST, 50), GPUMEM_E_TIMED_OUT);
        gate_open(&gate);
        world_everything_is_free();
}

TEST(an_allocation_may_outlive_the_graph)
{
        void *kept, *freed;
        CUgraph graph;

        capturer_begin(&capturer, captured, GLOBAL);
        kept = world_must_alloc(captured, N_BYTES);
        freed = world_must_alloc(captured, N_BYTES);
        world_fill(kept, 0x44, N_BYTES, captured);
        world_must_free(freed, captured);
        graph = capturer_end(&capturer, captured);
        capturer_replay(&capturer, graph, captured);
        capturer_destroy(&capturer, graph);
        ck_assert_int_eq(holder_alloc(&holder, MOST, LONG_MS), 0);
        holder_free_all(&holder);
        world_check(kept, 0x44, N_BYTES);
        ck_assert_uint_eq(world_stats().n_allocated_bytes, N_BYTES);
        world_must_free(kept, side);
        world_everything_is_free();
}

/* Or it was lost, or its stream was destroyed before its end. */
TEST(a_capture_that_comes_to_nothing_keeps_nothing, .to = 3)
{
        CUgraph graph;
        void *pointer;

        capturer_begin(&capturer, captured, GLOBAL);
        pointer = world_must_alloc(captured, MOST);
        if (_i == 0)
                world_must_free(pointer, captured);
        if (_i == 2) {
                ck_assert_int_eq(CUDA_CALL(&cuda, cuStreamDestroy, captured), 0);
        } else {
                ck_assert_int_ne((int)cuda.cuStreamQuery(captured), CUDA_SUCCESS);
                ck_assert_int_eq(world_alloc(captured, 512, 0, &pointer), GPUMEM_E_UNSUPPORTED);
                ck_assert_int_ne((int)capturer.end(captured, &graph), CUDA_SUCCESS);
        }
        if (_i)
                world_must_free(pointer, side);
        world_everything_is_free();
}

/* What they run at their end finds nobody. */
TEST(a_graph_may_outlive_the_client)
{
        CUgraph graph;

        capturer_begin(&capturer, captured, GLOBAL);
        (void)world_must_alloc(captured, N_BYTES);
        graph = capturer_end(&capturer, captured);
        gpumem_disconnect(client);
        client = NULL;
        capturer_destroy(&capturer, graph);
}

/* Those who miss look, when there is no thread that does. */
TEST(it_goes_without_a_thread)
{
        void *pointer;
        CUgraph graph;

        gpumem_disconnect(client);
        ck_assert_int_eq(setenv("GPUMEM_SERVICE_THREAD", "0", 1), 0);
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
        for (unsigned i = 0; i < 3; i++) {
                capturer_begin(&capturer, captured, GLOBAL);
                pointer = world_must_alloc(captured, MOST);
                world_must_free(pointer, captured);
                graph = capturer_end(&capturer, captured);
                ck_assert_int_eq(world_alloc(side, MOST, 0, &pointer), GPUMEM_E_REFUSED);
                capturer_destroy(&capturer, graph);
                pointer = world_must_alloc(side, MOST);
                world_must_free(pointer, side);
                ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        }
        world_everything_is_free();
}

TEST(what_has_no_place_in_a_graph_is_told, .to = 2)
{
        struct gpumem_request request = {.struct_size = sizeof(request),
                                         .kind = _i ? GPUMEM_PINNED : GPUMEM_DEVICE,
                                         .place = GPUMEM_NEAREST,
                                         .stream = captured,
                                         .n_bytes = N_BYTES,
                                         .flags = GPUMEM_SHAREABLE};
        struct gpumem_refusal refusal = {.struct_size = sizeof(refusal)};
        void *pointer;
        CUgraph graph;

        capturer_begin(&capturer, captured, GLOBAL);
        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), GPUMEM_E_UNSUPPORTED);
        ck_assert_int_eq(gpumem_last_refusal(client, &refusal), 0);
        ck_assert_ptr_nonnull(strstr(refusal.text, "before the capture begins"));
        graph = capturer_end(&capturer, captured);
        capturer_destroy(&capturer, graph);
}

TESTS_MAIN("memory", .limit_s = 120, .start = world_start, .stop = world_stop)
