/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a graph pool: its owner, its lifetime, and which calls may ask for it. */
#include <pthread.h>
#include <stdatomic.h>

#include "tests/live/support/world.h"
#include "tests/live/worlds/capture_world.h"

/* What a capture of that stream allocates and frees. */
static void *capture_one(CUstream stream, CUgraph *ret_graph)
{
        void *pointer;

        capturer_begin(&capturer, stream, GLOBAL);
        pointer = world_must_alloc(stream, N_BYTES);
        world_fill(pointer, 0x44, N_BYTES, stream);
        world_must_free(pointer, stream);
        *ret_graph = capturer_end(&capturer, stream);
        return pointer;
}

/* Nor with captures without one, nor with streams. */
TEST(pools_share_nothing)
{
        uint64_t first = world_begin_pool(7, captured), second;
        CUgraph graphs[4];
        void *pointers[5];

        pointers[0] = capture_one(captured, &graphs[0]);
        world_end_pool(first, captured);
        second = world_begin_pool(0, captured);
        ck_assert_uint_ne(first, second);
        pointers[1] = capture_one(captured, &graphs[1]);
        world_end_pool(second, captured);
        pointers[2] = capture_one(captured, &graphs[2]);
        pointers[3] = world_must_alloc(captured, N_BYTES);
        pointers[4] = world_must_alloc(side, N_BYTES);
        for (unsigned i = 0; i < ARRAY_SIZE(pointers); i++) {
                for (unsigned j = 0; j < i; j++)
                        ck_assert_ptr_ne(pointers[i], pointers[j]);
        }
        world_must_free(pointers[3], captured);
        world_must_free(pointers[4], side);
        /* By its id it is the same pool, in whatever stream. */
        (void)world_begin_pool(first, side);
        ck_assert_ptr_eq(capture_one(side, &graphs[3]), pointers[0]);
        world_end_pool(first, side);
        for (unsigned i = 0; i < ARRAY_SIZE(graphs); i++)
                capturer_destroy(&capturer, graphs[i]);
        world_everything_is_free();
}

/* Each of the three keeps it: that it is open, a graph, an allocation. */
TEST(memory_stays_as_long_as_anything_of_the_pool, .to = 3)
{
        uint64_t id = world_begin_pool(0, captured);
        CUgraph graphs[2];
        void *pointer;

        for (unsigned i = 0; i < ARRAY_SIZE(graphs); i++) {
                capturer_begin(&capturer, captured, GLOBAL);
                pointer = world_must_alloc(captured, MOST);
                if (!i)
                        world_must_free(pointer, captured);
                graphs[i] = capturer_end(&capturer, captured);
        }
        capturer_destroy(&capturer, graphs[0]);
        if (_i == 0)
                world_end_pool(id, captured);
        if (_i <= 1)
                world_must_free(pointer, side);
        if (_i >= 1)
                capturer_destroy(&capturer, graphs[1]);
        if (_i == 2)
                world_end_pool(id, captured);
        sleep_ms(50);
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        ck_assert_int_eq(holder_alloc(&holder, MOST, 50), GPUMEM_E_TIMED_OUT);
        if (_i == 0)
                capturer_destroy(&capturer, graphs[1]);
        if (_i == 1)
                world_end_pool(id, captured);
        if (_i == 2)
                world_must_free(pointer, side);
        world_everything_is_free();
}

/* What is freed by a later capture, or after the captures, the next one has. */
TEST(what_a_graph_leaves_is_freed_later)
{
        uint64_t id = world_begin_pool(0, captured);
        CUgraph graphs[3];
        void *left, *next;

        capturer_begin(&capturer, captured, GLOBAL);
        left = world_must_alloc(captured, N_BYTES);
        graphs[0] = capturer_end(&capturer, captured);
        capturer_begin(&capturer, captured, GLOBAL);
        next = world_must_alloc(captured, N_BYTES);
        ck_assert_ptr_ne(left, next);
        world_must_free(left, captured);
        ck_assert_ptr_eq(world_must_alloc(captured, N_BYTES), left);
        graphs[1] = capturer_end(&capturer, captured);
        world_must_free(left, side);
        world_must_free(next, captured);
        capturer_begin(&capturer, captured, GLOBAL);
        ck_assert_ptr_eq(world_must_alloc(captured, 2 * N_BYTES), left < next ? left : next);
        graphs[2] = capturer_end(&capturer, captured);
        world_must_free(left < next ? left : next, captured);
        world_end_pool(id, captured);
        for (unsigned i = 0; i < ARRAY_SIZE(graphs); i++)
                capturer_destroy(&capturer, graphs[i]);
        world_everything_is_free();
}

/* A little less than a block: what is allocated next to it keeps the block in its stream, however long a test takes. */
#define N_OWN (N_BYTES - 512)

/* A program's first run is outside of captures, in the memory that its graphs will have. */
TEST(a_program_warms_up_in_the_pool)
{
        void *own, *kept, *warm;
        CUgraph graph;
        uint64_t id;

        own = world_must_alloc(captured, N_OWN);
        kept = world_must_alloc(captured, 512);
        world_must_free(own, captured);
        ck_assert_ptr_eq(world_must_alloc(captured, N_OWN), own);
        world_must_free(own, captured);
        id = world_begin_pool(0, captured);
        warm = world_must_alloc(captured, N_BYTES);
        ck_assert_ptr_ne(warm, own);
        world_must_free(warm, captured);
        ck_assert_ptr_eq(world_must_alloc(captured, N_BYTES), warm);
        world_must_free(warm, captured);
        ck_assert_ptr_eq(capture_one(captured, &graph), warm);
        ck_assert_ptr_eq(world_must_alloc(captured, N_BYTES), warm);
        world_end_pool(id, captured);
        world_must_free(warm, captured);
        ck_assert_ptr_eq(world_must_alloc(captured, N_OWN), own);
        world_must_free(own, captured);
        world_must_free(kept, captured);
        capturer_destroy(&capturer, graph);
        world_everything_is_free();
}

/* The pool was over, but for an allocation. */
TEST(a_pool_goes_on_with_what_is_left)
{
        void *kept[2];
        CUgraph graph;

        (void)world_begin_pool(3, captured);
        kept[0] = world_must_alloc(captured, MOST / 2);
        kept[1] = world_must_alloc(captured, MOST / 2);
        world_end_pool(3, captured);
        world_must_free(kept[0], captured);
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        (void)world_begin_pool(3, captured);
        world_must_free(kept[1], captured);
        capturer_begin(&capturer, captured, GLOBAL);
        world_pass(captured, MOST / 2);
        graph = capturer_end(&capturer, captured);
        world_end_pool(3, captured);
        sleep_ms(50);
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        ck_assert_int_eq(holder_alloc(&holder, MOST, 50), GPUMEM_E_TIMED_OUT);
        capturer_destroy(&capturer, graph);
        world_everything_is_free();
}

/* A call that waits for work. */
struct waiting {
        uint64_t id;   /* 0: a free of */
        void *pointer; /* this */
        _Atomic bool over;
};

static void *call(void *argument)
{
        struct waiting *waiting = argument;

        ck_assert_int_eq(gpu_use(gpu), 0);
        if (waiting->id)
                world_end_pool(waiting->id, captured);
        else
                world_must_free(waiting->pointer, captured);
        atomic_store(&waiting->over, true);
        return NULL;
}

static void must_wait(struct waiting *waiting, CUgraph destroyed)
{
        pthread_t thread;

        ck_assert_int_eq(pthread_create(&thread, NULL, call, waiting), 0);
        sleep_ms(50);
        if (destroyed)
                capturer_destroy(&capturer, destroyed);
        ck_assert_int_eq(holder_alloc(&holder, MOST, 50), GPUMEM_E_TIMED_OUT);
        ck_assert(!atomic_load(&waiting->over));
        gate_open(&gate);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

/* No later call asks how far the stream has come. */
TEST(the_end_waits_for_work_outside_of_captures)
{
        struct waiting waiting = {.id = world_begin_pool(0, captured)};
        void *pointer = world_must_alloc(captured, MOST);

        gate_hold(&gate, captured);
        world_fill(pointer, 0x55, 1024, captured);
        world_must_free(pointer, captured);
        must_wait(&waiting, NULL);
        world_everything_is_free();
}

TEST(a_free_after_the_end_waits)
{
        struct waiting waiting = {.id = 0};
        uint64_t id = world_begin_pool(0, captured);
        CUgraph graph;

        (void)world_begin_pool(id, side);
        (void)capture_one(side, &graph);
        world_end_pool(id, side);
        waiting.pointer = world_must_alloc(captured, MOST);
        world_end_pool(id, captured);
        gate_hold(&gate, captured);
        world_fill(waiting.pointer, 0x55, 1024, captured);
        must_wait(&waiting, graph);
        world_everything_is_free();
}

static void *flush_all(void *argument)
{
        struct waiting *waiting = argument;

        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        atomic_store(&waiting->over, true);
        return NULL;
}

/* As if the pool were still open, for every caller, until a call has waited for all work. */
TEST(a_pool_whose_work_cannot_be_waited_for_is_kept, .to = 2, NEEDS_EMULATOR)
{
        struct waiting waiting = {.id = world_begin_pool(0, captured)};
        void *pointer = world_must_alloc(captured, MOST);
        pthread_t thread;

        gate_hold(&gate, captured);
        world_fill(pointer, 0x55, 1024, captured);
        world_must_free(pointer, captured);
        world_fault(_i ? "fail=cuStreamSynchronize:1:999" : "fail=cuStreamSynchronize:1:700");
        ck_assert_int_eq(gpumem_graph_pool_end(client, waiting.id, captured), -EIO);
        ck_assert_int_eq(gpumem_graph_pool_end(client, waiting.id, captured),
                         GPUMEM_E_NO_GRAPH_POOL);
        ck_assert_int_eq(holder_alloc(&holder, MOST, 50), GPUMEM_E_TIMED_OUT);
        world_fault("fail=cuMemHostRegister:*:999\nfail=cuMemAlloc:*:2");
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        ck_assert_int_eq(world_alloc(side, MOST, 0, &pointer), GPUMEM_E_REFUSED);
        ck_assert_int_eq(holder_alloc(&holder, MOST, 50), GPUMEM_E_TIMED_OUT);
        world_fault("");
        ck_assert_int_eq(pthread_create(&thread, NULL, flush_all, &waiting), 0);
        ck_assert_int_eq(holder_alloc(&holder, MOST, 50), GPUMEM_E_TIMED_OUT);
        ck_assert(!atomic_load(&waiting.over));
        gate_open(&gate);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        world_everything_is_free();
}

/* Who is about to be refused waits for it too. */
TEST(a_pool_that_was_kept_is_had_by_who_needs_it, NEEDS_EMULATOR)
{
        uint64_t id = world_begin_pool(0, captured);
        void *pointer = world_must_alloc(captured, MOST);

        world_must_free(pointer, captured);
        world_fault("fail=cuStreamSynchronize:1:999");
        ck_assert_int_eq(gpumem_graph_pool_end(client, id, captured), -EIO);
        world_pass(side, MOST);
        world_everything_is_free();
}

/* Another thread, with a pool and captures of its own. */
static _Atomic bool is_capturing, is_over;

static void *capture_on(void *unused)
{
        uint64_t id;

        (void)unused;
        ck_assert_int_eq(gpu_use(gpu), 0);
        id = world_begin_pool(0, side);
        while (!atomic_load(&is_over)) {
                capturer_begin(&capturer, side, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
                capturer_destroy(&capturer, capturer_end(&capturer, side));
                atomic_store(&is_capturing, true);
        }
        world_end_pool(id, side);
        return NULL;
}

/* Its first allocation is for a stream that has joined. */
static void *capture_joined(CUgraph *ret_graph)
{
        void *pointer;

        capturer_begin(&capturer, captured, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
        world_order(branch, captured);
        pointer = world_must_alloc(branch, N_BYTES);
        world_must_free(pointer, branch);
        world_order(captured, branch);
        *ret_graph = capturer_end(&capturer, captured);
        return pointer;
}

/* Whether or not a pool is open where the capture began. The emulated driver ends the process if it is asked about the
 * other thread's stream too soon. */
TEST(a_joined_stream_asks_about_no_other_threads_stream, .to = 2)
{
        uint64_t id = _i ? world_begin_pool(0, captured) : 0;
        void *first = NULL, *pointer;
        pthread_t thread;
        CUgraph graph;

        ck_assert_int_eq(pthread_create(&thread, NULL, capture_on, NULL), 0);
        while (!atomic_load(&is_capturing))
                sleep_ms(1);
        for (unsigned i = 0; i < 50; i++) {
                pointer = capture_joined(&graph);
                ck_assert(!_i || !first || pointer == first);
                first = pointer;
                capturer_destroy(&capturer, graph);
        }
        atomic_store(&is_over, true);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        if (_i)
                world_end_pool(id, captured);
        world_everything_is_free();
}

static void *alloc_in_branch(void *unused)
{
        (void)unused;
        ck_assert_int_eq(gpu_use(gpu), 0);
        return world_must_alloc(branch, N_BYTES);
}

/* That thread's allocation is the graph's. The pool serves the capture from the first call for the pool's own stream on. */
TEST(a_thread_without_a_pool_may_allocate_first)
{
        uint64_t id = world_begin_pool(0, captured);
        void *own, *others, *pointer;
        pthread_t thread;
        CUgraph graphs[2];

        own = capture_one(captured, &graphs[0]);
        capturer_begin(&capturer, captured, CU_STREAM_CAPTURE_MODE_RELAXED);
        world_order(branch, captured);
        ck_assert_int_eq(pthread_create(&thread, NULL, alloc_in_branch, NULL), 0);
        ck_assert_int_eq(pthread_join(thread, &others), 0);
        ck_assert_ptr_ne(others, own);
        pointer = world_must_alloc(captured, N_BYTES);
        ck_assert_ptr_eq(pointer, own);
        world_must_free(others, branch);
        world_order(captured, branch);
        world_must_free(pointer, captured);
        graphs[1] = capturer_end(&capturer, captured);
        world_end_pool(id, captured);
        for (unsigned i = 0; i < ARRAY_SIZE(graphs); i++)
                capturer_destroy(&capturer, graphs[i]);
        world_everything_is_free();
}

TEST(wrong_calls_are_told_apart)
{
        const uint64_t first = (UINT64_C(1) << 63) + 1, made_elsewhere = first + 999;
        const struct gpumem_options no_driver = {.struct_size = sizeof(no_driver),
                                                 .cuda_library = "/none"};
        struct gpumem_client *other;
        uint64_t id = 0;

        ck_assert_int_eq(gpumem_connect(&no_driver, &other), 0);
        ck_assert_int_eq(gpumem_graph_pool_begin(other, 1, captured, NULL), GPUMEM_E_NO_DRIVER);
        ck_assert_int_eq(gpumem_graph_pool_end(other, 1, captured), GPUMEM_E_NO_DRIVER);
        gpumem_disconnect(other);
        ck_assert_int_eq(gpumem_graph_pool_begin(client, 0, captured, NULL), GPUMEM_E_BAD_REQUEST);
        ck_assert_int_eq(gpumem_graph_pool_begin(client, 1, NULL, NULL), GPUMEM_E_UNSUPPORTED);
        ck_assert_int_eq(gpumem_graph_pool_begin(client, made_elsewhere, captured, NULL),
                         GPUMEM_E_NO_GRAPH_POOL);
        ck_assert_int_eq(gpumem_graph_pool_begin(client, first - 1, captured, NULL),
                         GPUMEM_E_NO_GRAPH_POOL);
        ck_assert_int_eq(gpumem_graph_pool_end(client, 1, captured), GPUMEM_E_NO_GRAPH_POOL);
        ck_assert_int_eq(gpumem_graph_pool_begin(client, 1, captured, NULL), 0);
        ck_assert_int_eq(gpumem_graph_pool_begin(client, 1, captured, NULL),
                         GPUMEM_E_GRAPH_POOL_OPEN);
        ck_assert_int_eq(gpumem_graph_pool_begin(client, 0, captured, &id),
                         GPUMEM_E_GRAPH_POOL_OPEN);
        ck_assert_uint_eq(id, 0);
        ck_assert_int_eq(gpumem_graph_pool_end(client, 2, captured), GPUMEM_E_NO_GRAPH_POOL);
        ck_assert_int_eq(gpumem_graph_pool_end(client, 1, side), GPUMEM_E_NO_GRAPH_POOL);
        capturer_begin(&capturer, captured, GLOBAL);
        ck_assert_int_eq(gpumem_graph_pool_end(client, 1, captured), GPUMEM_E_CAPTURES);
        ck_assert_int_eq(gpumem_graph_pool_begin(client, 2, captured, NULL), GPUMEM_E_CAPTURES);
        capturer_destroy(&capturer, capturer_end(&capturer, captured));
        world_end_pool(1, captured);
        ck_assert_int_eq(gpumem_graph_pool_end(client, 1, captured), GPUMEM_E_NO_GRAPH_POOL);
        /* The program chose the id of that pool, so the library has given none. */
        ck_assert_int_eq(gpumem_graph_pool_begin(client, first, captured, NULL),
                         GPUMEM_E_NO_GRAPH_POOL);
        ck_assert_int_eq(gpumem_graph_pool_begin(client, 0, captured, &id), 0);
        world_end_pool(id, captured);
        ck_assert_int_eq(gpumem_graph_pool_begin(client, id, captured, NULL), 0);
        world_end_pool(id, captured);
}

TEST(it_goes_without_a_thread)
{
        gpumem_disconnect(client);
        ck_assert_int_eq(setenv("GPUMEM_SERVICE_THREAD", "0", 1), 0);
        client = connect_client();
        for (unsigned i = 0; i < 3; i++) {
                void *pointer;
                CUgraph graph;

                (void)world_begin_pool(1, captured);
                pointer = world_must_alloc(captured, MOST);
                world_must_free(pointer, captured);
                ck_assert_ptr_eq(capture_one(captured, &graph), pointer);
                world_end_pool(1, captured);
                ck_assert_int_eq(world_alloc(side, MOST, 0, &pointer), GPUMEM_E_REFUSED);
                capturer_destroy(&capturer, graph);
                world_pass(side, MOST);
                ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        }
        world_everything_is_free();
}

/* With graphs, allocations, and where it is open. */
TEST(a_client_ends_with_a_pool)
{
        CUgraph graph;

        (void)world_begin_pool(1, captured);
        (void)capture_one(captured, &graph);
        (void)world_must_alloc(captured, N_BYTES);
        gpumem_disconnect(client);
        client = NULL;
        capturer_destroy(&capturer, graph);
}

TESTS_MAIN("graph pools", .limit_s = 120, .start = world_start, .stop = world_stop)
