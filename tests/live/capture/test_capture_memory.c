/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is allocated while a stream captures belongs to the graph, and to the program until it frees
 * it. Other memory that is freed during the capture is freed when the capture is over. */
#include "client/api/client.h"
#include "client/pool/stream_heaps.h"
#include "tests/live/support/world.h"
#include "tests/live/worlds/capture_world.h"

#define N_IDLE 8

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
                world_synchronize(side);
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

/* As if so many streams had come and gone that heaps without blocks are retired. */
static void retire_heaps(struct pool *pool)
{
        struct stream_heap *heap, *next;

        pthread_mutex_lock(&pool->lock);
        HASH_ITER(hh, pool->heaps, heap, next)
        {
                ck_assert_uint_eq(heap_in(heap)->n_blocks, 0);
                pool_retire_heap(pool, heap);
        }
        pthread_mutex_unlock(&pool->lock);
}

/* The program was in a loop, whose blocks come back at once. */
TEST(a_capture_takes_no_more_idle_memory_than_it_needs)
{
        struct pool *pool = client_pool_at(client, GPUMEM_DEVICE, 0);
        void *freed[N_IDLE], *pointer;

        for (unsigned i = 0; i < N_IDLE; i++)
                freed[i] = world_must_alloc(side, N_BYTES);
        for (unsigned i = 0; i < N_IDLE; i++)
                world_must_free(freed[i], side);
        AWAIT(world_stats().n_cached_bytes == world_stats().n_reserved_bytes);
        retire_heaps(pool);
        pool->heap_set.patience.us = IDLE_PATIENCE_MAX_US;
        capturer_begin(&capturer, captured, GLOBAL);
        pointer = world_must_alloc(captured, N_BYTES);
        ck_assert_uint_ge(world_stats().n_cached_bytes, world_stats().n_reserved_bytes / 2);
        world_must_free(pointer, captured);
        capturer_destroy(&capturer, capturer_end(&capturer, captured));
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

/* No block is idle then. The thread that destroys the graph may not be one of the program's. */
TEST(with_a_cache_size_it_goes_back_after_the_graph, .to = 2)
{
        void *pointer;
        CUgraph graph;

        ck_assert_int_eq(gpumem_set_cache_size(client, 0), 0);
        capturer_begin(&capturer, captured, GLOBAL);
        pointer = world_must_alloc(captured, MOST);
        if (_i)
                world_must_free(pointer, captured);
        graph = capturer_end(&capturer, captured);
        if (!_i)
                world_must_free(pointer, side);
        ck_assert_uint_ge(world_stats().n_reserved_bytes, MOST);
        capturer_destroy(&capturer, graph);
        AWAIT(world_stats().n_reserved_bytes == 0);
        world_everything_is_free();
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
                DRIVER(cuStreamDestroy, captured);
        } else {
                ck_assert_int_ne((int)cuda.cuStreamQuery(captured), CUDA_SUCCESS);
                ck_assert_int_eq(world_alloc(captured, 512, 0, &pointer), GPUMEM_E_UNSUPPORTED);
                ck_assert_int_ne((int)capturer.end(captured, &graph), CUDA_SUCCESS);
        }
        if (_i)
                world_must_free(pointer, side);
        world_everything_is_free();
}

/* The graph's callbacks at its end find no client. */
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

TEST(what_has_no_place_in_a_graph_is_told, .to = 4)
{
        struct gpumem_request request = {.struct_size = sizeof(request),
                                         .kind = _i & 1 ? GPUMEM_PINNED : GPUMEM_DEVICE,
                                         .place = GPUMEM_NEAREST,
                                         .stream = captured,
                                         .n_bytes = N_BYTES,
                                         .flags = _i & 2 ? GPUMEM_REGISTERED : GPUMEM_SHAREABLE};
        struct gpumem_refusal refusal = {.struct_size = sizeof(refusal)};
        void *pointer;

        capturer_begin(&capturer, captured, GLOBAL);
        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), GPUMEM_E_UNSUPPORTED);
        ck_assert_int_eq(gpumem_last_refusal(client, &refusal), 0);
        ck_assert_ptr_nonnull(strstr(refusal.text, "before the capture begins"));
        capturer_destroy(&capturer, capturer_end(&capturer, captured));
}

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
        world_pass(captured, N_BYTES);
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

/* Branches are not ordered: memory of one branch that another frees is not reused in that capture. */
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
        world_pass(branch, N_BYTES);
        await_allocated(0);
        capturer_destroy(&capturer, graph);
        world_everything_is_free();
}

/* The client does not see the stream again: it was ended in order, lost, or destroyed while it captured. */
TEST(a_stream_that_is_not_met_again_keeps_nothing, .to = 3)
{
        void *freed = world_must_alloc(side, MOST);
        CUgraph graph;

        capturer_begin(&capturer, captured, GLOBAL);
        world_must_free(freed, captured);
        if (_i == 0)
                graph = capturer_end(&capturer, captured);
        if (_i == 1) {
                ck_assert_int_ne((int)cuda.cuStreamQuery(captured), CUDA_SUCCESS);
                ck_assert_int_ne((int)capturer.end(captured, &graph), CUDA_SUCCESS);
        }
        DRIVER(cuStreamDestroy, captured);
        if (_i == 0)
                capturer_destroy(&capturer, graph);
        world_pass(side, MOST);
        world_everything_is_free();
}

/* It is the same with streams that are recorded, and with what is not allocated at all. */
TEST(other_streams_are_waited_for_too)
{
        void *freed = world_must_alloc(side, N_BYTES);

        gate_hold(&gate, branch);
        ck_assert_int_eq(gpumem_record_use(client, freed, branch), 0);
        capturer_begin(&capturer, captured, GLOBAL);
        ck_assert_int_eq(gpumem_free(client, (char *)freed + 512, captured), GPUMEM_E_NOT_OURS);
        world_must_free(freed, captured);
        capturer_destroy(&capturer, capturer_end(&capturer, captured));
        world_pass(captured, N_BYTES);
        is_not_ours(freed);
        gate_open(&gate);
        await_allocated(0);
}

TESTS_MAIN("memory", .limit_s = 120, .start = world_start, .stop = world_stop)
