/* SPDX-License-Identifier: Apache-2.0 */
/* GPUMEM_DEBUG: the contents of memory after allocations and frees, and memory that it leaves alone. */
#include <pthread.h>

#include "client/watch/debug.h"
#include "tests/live/support/world.h"
#include "tests/live/worlds/capture_world.h"

#define WRITTEN   0x11
#define N_THREADS 4
#define N_TURNS   100

static const enum gpumem_kind kinds[] = {GPUMEM_DEVICE, GPUMEM_PINNED};
static const uint64_t sizes[] = {1, 511, 512, 513, 2 * MIB};

/* The world's client has no checks. */
static void start(const char *checks)
{
        world_start();
        gpumem_disconnect(client);
        ck_assert_int_eq(setenv("GPUMEM_DEBUG", checks, 1), 0);
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
}

static void start_both(void)
{
        start("fill,guard");
}

static void start_fill(void)
{
        start("fill");
}

static void start_guard(void)
{
        start("guard");
}

static const struct test_case fill_only = {"fill", .limit_s = 60, .start = start_fill,
                                           .stop = world_stop};
static const struct test_case guard_only = {"guard", .limit_s = 60, .start = start_guard,
                                            .stop = world_stop};
static const struct test_case neither = {"none", .limit_s = 60, .start = world_start,
                                         .stop = world_stop};

static void write_bytes(enum gpumem_kind kind, void *pointer, unsigned char byte, uint64_t n_bytes)
{
        if (kind == GPUMEM_PINNED)
                memset(pointer, byte, n_bytes);
        else
                world_fill(pointer, byte, n_bytes, side);
}

/* Of device memory: once `side` has come so far. */
static void check_bytes(enum gpumem_kind kind, const void *pointer, unsigned char byte,
                        uint64_t n_bytes)
{
        const unsigned char *bytes = pointer;
        uint64_t n_wrong = 0;

        if (kind == GPUMEM_DEVICE) {
                world_check(pointer, byte, n_bytes);
                return;
        }
        for (uint64_t i = 0; i < n_bytes; i++)
                n_wrong += bytes[i] != byte;
        ck_assert_uint_eq(n_wrong, 0);
}

static void check_size(const void *pointer, uint64_t n_bytes)
{
        struct gpumem_info info = {.struct_size = sizeof(info)};

        ck_assert_int_eq(gpumem_describe(client, pointer, &info), 0);
        ck_assert_ptr_eq(info.base, pointer);
        ck_assert_uint_eq(info.n_requested_bytes, n_bytes);
}

/* What is behind it belongs to a neighbor, whose bytes stay. */
static void follow(enum gpumem_kind kind, uint64_t n_bytes, bool sync)
{
        unsigned char *pointer = world_alloc_as(kind, side, n_bytes, 0);

        check_bytes(kind, pointer, DEBUG_ALLOCATED, n_bytes);
        check_bytes(kind, pointer + n_bytes, DEBUG_GUARD_BYTE, DEBUG_GUARD_BYTES);
        check_size(pointer, n_bytes);
        write_bytes(kind, pointer, WRITTEN, n_bytes);
        if (sync)
                ck_assert_int_eq(gpumem_free_sync(client, pointer), 0);
        else
                world_must_free(pointer, side);
        check_bytes(kind, pointer, DEBUG_FREED, n_bytes);
        check_bytes(kind, pointer + n_bytes, DEBUG_GUARD_BYTE, DEBUG_GUARD_BYTES);
}

TEST(memory_is_filled_and_guarded, .to = ARRAY_SIZE(kinds))
{
        for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
                follow(kinds[_i], sizes[i], false);
                follow(kinds[_i], sizes[i], true);
        }
}

/* The fills wait in the stream as the program's work does, and no call waits. */
TEST(fills_are_in_the_streams_order, .in = &fill_only)
{
        void *pointer = world_must_alloc(captured, N_BYTES);
        void *before = world_must_alloc(side, N_BYTES), *after = world_must_alloc(side, N_BYTES);
        void *again;

        world_synchronize(side);
        gate_hold(&gate, captured);
        world_fill(pointer, WRITTEN, N_BYTES, captured);
        world_copy(before, pointer, N_BYTES, captured);
        world_must_free(pointer, captured);
        again = world_must_alloc(captured, N_BYTES);
        ck_assert_ptr_eq(again, pointer);
        world_copy(after, again, N_BYTES, captured);
        world_must_free(again, captured);
        gate_open(&gate);
        world_synchronize(captured);
        world_check(before, WRITTEN, N_BYTES);
        world_check(after, DEBUG_ALLOCATED, N_BYTES);
        world_check(again, DEBUG_FREED, N_BYTES);
        world_must_free(before, side);
        world_must_free(after, side);
}

TEST(a_free_in_another_stream_fills_there, .in = &fill_only)
{
        void *pointer = world_must_alloc(side, N_BYTES);

        world_synchronize(side);
        world_fill(pointer, WRITTEN, N_BYTES, branch);
        world_must_free(pointer, branch);
        world_check(pointer, DEBUG_FREED, N_BYTES);
}

static void *open_soon(void *nothing)
{
        sleep_ms(50);
        gate_open(&gate);
        return nothing;
}

/* Until then the memory is no other process's. */
TEST(a_free_in_another_stream_waits_for_the_first_fill, .in = &fill_only)
{
        pthread_t opener;
        void *pointer;

        gate_hold(&gate, captured);
        pointer = world_must_alloc(captured, N_BYTES);
        ck_assert_int_eq(pthread_create(&opener, NULL, open_soon, NULL), 0);
        world_must_free(pointer, branch);
        DRIVER(cuStreamQuery, captured);
        ck_assert_int_eq(pthread_join(opener, NULL), 0);
        world_check(pointer, DEBUG_FREED, N_BYTES);
}

/* Work there may read it after the free. */
TEST(what_another_stream_uses_is_not_filled, .in = &fill_only)
{
        void *pointer = world_must_alloc(side, N_BYTES), *copy = world_must_alloc(side, N_BYTES);

        world_fill(pointer, WRITTEN, N_BYTES, side);
        world_synchronize(side);
        ck_assert_int_eq(gpumem_record_use(client, pointer, branch), 0);
        gate_hold(&gate, branch);
        world_copy(copy, pointer, N_BYTES, branch);
        world_must_free(pointer, side);
        world_synchronize(side);
        gate_open(&gate);
        world_synchronize(branch);
        world_check(copy, WRITTEN, N_BYTES);
        world_must_free(copy, side);
}

/* The reader's work may go on after the free, and after the next allocation until the program waits for it; so may
 * that of a reader which was unregistered. */
TEST(what_a_registered_stream_may_use_is_not_written, .to = 2)
{
        void *pointer = world_must_alloc(side, N_BYTES), *copy = world_must_alloc(side, N_BYTES);

        world_fill(pointer, WRITTEN, N_BYTES, side);
        world_synchronize(side);
        ck_assert_int_eq(gpumem_stream_register(client, branch), 0);
        gate_hold(&gate, branch);
        world_copy(copy, pointer, N_BYTES, branch);
        if (_i)
                ck_assert_int_eq(gpumem_stream_unregister(client, branch), 0);
        world_must_free(pointer, side);
        ck_assert_ptr_eq(world_must_alloc(side, N_BYTES), pointer);
        world_synchronize(side);
        gate_open(&gate);
        world_synchronize(branch);
        world_check(copy, WRITTEN, N_BYTES);
        if (!_i)
                ck_assert_int_eq(gpumem_stream_unregister(client, branch), 0);
        /* Until the mark of the end is over, it may use the memory. */
        world_synchronize(branch);
        world_must_free(copy, side);
        world_check(copy, DEBUG_FREED, N_BYTES);
        world_must_free(pointer, side);
}

/* The graph has neither fill in it: a replay reads what was written between. */
TEST(memory_of_a_graph_is_left_alone)
{
        void *result = world_must_alloc(side, N_BYTES);
        unsigned char *source, *passing;
        CUgraph graph;

        world_synchronize(side);
        capturer_begin(&capturer, captured, GLOBAL);
        source = world_must_alloc(captured, N_BYTES);
        passing = world_must_alloc(captured, N_BYTES);
        world_copy(passing, source, N_BYTES, captured);
        world_must_free(passing, captured);
        world_copy(result, passing, N_BYTES, captured);
        graph = capturer_end(&capturer, captured);
        check_size(source, N_BYTES);
        for (unsigned char byte = 0x31; byte < 0x34; byte++) {
                world_fill(source, byte, N_BYTES + DEBUG_GUARD_BYTES, captured);
                capturer_replay(&capturer, graph, captured);
                world_check(result, byte, N_BYTES);
        }
        world_must_free(source, captured);
        capturer_replay(&capturer, graph, captured);
        world_check(result, 0x33, N_BYTES);
        capturer_destroy(&capturer, graph);
        world_must_free(result, side);
}

TEST(pinned_memory_of_a_graph_is_left_alone)
{
        unsigned char *pinned;
        void *ours;
        CUgraph graph;

        capturer_begin(&capturer, captured, GLOBAL);
        ours = world_must_alloc(captured, N_BYTES);
        world_fill(ours, WRITTEN, N_BYTES, captured);
        pinned = world_alloc_as(GPUMEM_PINNED, captured, N_BYTES, 0);
        memset(pinned, WRITTEN, N_BYTES + DEBUG_GUARD_BYTES);
        world_must_free(pinned, captured);
        check_bytes(GPUMEM_PINNED, pinned, WRITTEN, N_BYTES);
        graph = capturer_end(&capturer, captured);
        capturer_replay(&capturer, graph, captured);
        check_bytes(GPUMEM_PINNED, pinned, WRITTEN, N_BYTES);
        world_must_free(ours, captured);
        capturer_destroy(&capturer, graph);
}

/* A write in the capture would be the graph's, and be done again. */
TEST(a_free_in_a_capture_fills_nothing)
{
        void *pointer = world_must_alloc(side, N_BYTES), *own;
        CUgraph graph;

        world_fill(pointer, WRITTEN, N_BYTES, side);
        world_synchronize(side);
        capturer_begin(&capturer, captured, GLOBAL);
        own = world_must_alloc(captured, N_BYTES);
        world_fill(own, WRITTEN, N_BYTES, captured);
        world_must_free(pointer, captured);
        graph = capturer_end(&capturer, captured);
        capturer_replay(&capturer, graph, captured);
        world_check(pointer, WRITTEN, N_BYTES);
        world_must_free(own, captured);
        capturer_destroy(&capturer, graph);
}

/* Frees and allocations in other streams, meanwhile, end no capture. */
TEST(a_capture_goes_on_beside_fills)
{
        void *result = world_must_alloc(side, N_BYTES), *pointer;
        CUgraph graph;

        world_synchronize(side);
        capturer_begin(&capturer, captured, GLOBAL);
        world_pass(side, N_BYTES);
        pointer = world_alloc_as(GPUMEM_PINNED, side, N_BYTES, 0);
        world_must_free(pointer, side);
        pointer = world_must_alloc(side, N_BYTES);
        ck_assert_int_eq(gpumem_free_sync(client, pointer), 0);
        world_fill(result, WRITTEN, N_BYTES, captured);
        graph = capturer_end(&capturer, captured);
        capturer_replay(&capturer, graph, captured);
        world_check(result, WRITTEN, N_BYTES);
        capturer_destroy(&capturer, graph);
        world_must_free(result, side);
}

/* Graphs of the pool write there, whatever is allocated. */
TEST(memory_of_a_graph_pool_is_left_alone)
{
        uint64_t id = world_begin_pool(0, captured);
        unsigned char *pointer = world_must_alloc(captured, N_BYTES);

        check_size(pointer, N_BYTES);
        world_fill(pointer, WRITTEN, N_BYTES + DEBUG_GUARD_BYTES, captured);
        world_must_free(pointer, captured);
        world_synchronize(captured);
        world_check(pointer, WRITTEN, N_BYTES);
        world_end_pool(id, captured);
}

TEST(what_is_not_allocated_is_not_written)
{
        unsigned char *pointer = world_must_alloc(side, N_BYTES);
        unsigned char here = WRITTEN;

        world_fill(pointer, WRITTEN, N_BYTES, side);
        ck_assert_int_eq(gpumem_free(client, &here, side), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(gpumem_free_sync(client, &here), GPUMEM_E_NOT_OURS);
        ck_assert_uint_eq(here, WRITTEN);
        ck_assert_int_eq(gpumem_free(client, pointer + 512, side), GPUMEM_E_NOT_OURS);
        world_check(pointer, WRITTEN, N_BYTES);
        world_must_free(pointer, side);
        world_fill(pointer, WRITTEN, N_BYTES, side);
        ck_assert_int_eq(gpumem_free(client, pointer, side), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(gpumem_free_sync(client, pointer), GPUMEM_E_NOT_OURS);
        world_check(pointer, WRITTEN, N_BYTES);
}

/* The other holder has it still, and is told the program's size. */
TEST(shareable_memory_is_filled_at_its_allocation_only, .to = ARRAY_SIZE(kinds))
{
        enum gpumem_kind kind = kinds[_i];
        unsigned char *pointer = world_alloc_as(kind, side, N_BYTES, GPUMEM_SHAREABLE);
        struct gpumem_token token;
        uint64_t n_bytes;
        void *attached;

        check_bytes(kind, pointer, DEBUG_ALLOCATED, N_BYTES);
        check_size(pointer, N_BYTES);
        ck_assert_int_eq(gpumem_share(client, pointer, NULL, &token), 0);
        ck_assert_int_eq(gpumem_attach(client, &token, &attached, &n_bytes), 0);
        ck_assert_uint_eq(n_bytes, N_BYTES);
        write_bytes(kind, pointer, WRITTEN, N_BYTES);
        world_must_free(pointer, side);
        check_bytes(kind, attached, WRITTEN, N_BYTES);
        ck_assert_int_eq(gpumem_detach(client, attached, side), 0);
}

/* 512 bytes more for each allocation, before it is rounded. */
TEST(statistics_count_guards)
{
        void *pointer = world_must_alloc(side, 1000);

        ck_assert_uint_eq(world_stats().n_requested_bytes, 1000 + DEBUG_GUARD_BYTES);
        ck_assert_uint_eq(world_stats().n_allocated_bytes, 3 * 512);
        check_size(pointer, 1000);
        world_must_free(pointer, side);
        ck_assert_uint_eq(world_stats().n_requested_bytes, 0);
}

TEST(a_refusal_tells_the_programs_size)
{
        struct gpumem_refusal refusal = {.struct_size = sizeof(refusal)};
        void *untouched = &refusal, *pointer = untouched;

        ck_assert_int_eq(world_alloc(side, 1000 * MIB, 0, &pointer), GPUMEM_E_TOO_LARGE);
        ck_assert_ptr_eq(pointer, untouched);
        ck_assert_int_eq(gpumem_last_refusal(client, &refusal), 0);
        ck_assert_uint_eq(refusal.n_bytes, 1000 * MIB);
        ck_assert_int_eq(world_alloc(side, 0, 0, &pointer), GPUMEM_E_BAD_REQUEST);
        ck_assert_int_eq(world_alloc(side, UINT64_MAX, 0, &pointer), GPUMEM_E_TOO_LARGE);
}

TEST(guard_alone_fills_nothing, .in = &guard_only)
{
        unsigned char *pointer = world_alloc_as(GPUMEM_PINNED, side, 1000, 0);

        memset(pointer, WRITTEN, 1000);
        check_bytes(GPUMEM_PINNED, pointer + 1000, DEBUG_GUARD_BYTE, DEBUG_GUARD_BYTES);
        world_must_free(pointer, side);
        check_bytes(GPUMEM_PINNED, pointer, WRITTEN, 1000);
}

/* As the CPU and the GPU left them, and exactly as many. */
static void check_untouched(enum gpumem_kind kind)
{
        unsigned char *pointer = world_alloc_as(kind, side, N_BYTES, 0);

        write_bytes(kind, pointer, WRITTEN, N_BYTES);
        world_must_free(pointer, side);
        check_bytes(kind, pointer, WRITTEN, N_BYTES);
        ck_assert_ptr_eq(world_alloc_as(kind, side, N_BYTES, 0), pointer);
        check_bytes(kind, pointer, WRITTEN, N_BYTES);
        ck_assert_int_eq(gpumem_free_sync(client, pointer), 0);
        check_bytes(kind, pointer, WRITTEN, N_BYTES);
}

TEST(without_the_variable_nothing_is_written, .in = &neither)
{
        void *pointer = world_must_alloc(side, 1000);

        ck_assert_uint_eq(world_stats().n_requested_bytes, 1000);
        world_must_free(pointer, side);
        check_untouched(GPUMEM_DEVICE);
        check_untouched(GPUMEM_PINNED);
}

static void *take_turns(void *argument)
{
        enum gpumem_kind kind = *(const enum gpumem_kind *)argument;
        CUstream stream;

        ck_assert_int_eq(gpu_use(gpu), 0);
        stream = world_new_stream();
        for (uint64_t i = 0; i < N_TURNS; i++) {
                unsigned char *pointer = world_alloc_as(kind, stream, i * 37 + 1, 0);

                if (kind == GPUMEM_PINNED)
                        check_bytes(kind, pointer, DEBUG_ALLOCATED, i * 37 + 1);
                world_must_free(pointer, i % 2 ? stream : side);
        }
        DRIVER(cuStreamDestroy, stream);
        return NULL;
}

TEST(threads_do_not_mix_their_allocations)
{
        pthread_t threads[N_THREADS];

        for (unsigned i = 0; i < N_THREADS; i++)
                ck_assert_int_eq(
                        pthread_create(&threads[i], NULL, take_turns, (void *)&kinds[i % 2]), 0);
        for (unsigned i = 0; i < N_THREADS; i++)
                ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        ck_assert_uint_eq(world_stats().n_allocated_bytes, 0);
}

TESTS_MAIN("both", .limit_s = 60, .start = start_both, .stop = world_stop)
