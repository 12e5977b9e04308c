/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned memory that is allocated while a stream captures: every replay reads what the CPU wrote there. */
#include "tests/live/support/world.h"
#include "tests/live/worlds/capture_world.h"

#define N_PIECES 4
#define N_ROUNDS 3

/* On memory of either kind. */
static void start(int i)
{
        if (i % 2)
                world_start_vmm();
        else
                world_start();
}

static void *alloc_pinned(CUstream stream, unsigned char byte)
{
        return memset(world_alloc_as(GPUMEM_PINNED, stream, N_BYTES, 0), byte, N_BYTES);
}

static void check_bytes(const void *pointer, unsigned char byte)
{
        const unsigned char *bytes = pointer;
        uint64_t n_wrong = 0;

        for (uint64_t i = 0; i < N_BYTES; i++)
                n_wrong += bytes[i] != byte;
        ck_assert_uint_eq(n_wrong, 0);
}

static void copy_to_device(void *to, const void *from, CUstream stream)
{
        DRIVER(cuMemcpyHtoDAsync, (CUdeviceptr)(uintptr_t)to, from, N_BYTES, stream);
}

static struct gpumem_stats pinned_stats(void)
{
        return nearest_stats(client, GPUMEM_PINNED);
}

/* What was freed in a capture is, once the stream has come so far. */
static void await_freed(void)
{
        AWAIT(pinned_stats().n_allocated_bytes == 0);
}

/* Of this process, by the CPU. */
static void write_elsewhere(void)
{
        void *pointers[N_PIECES];

        for (unsigned i = 0; i < N_PIECES; i++)
                pointers[i] = alloc_pinned(side, 0xee);
        for (unsigned i = 0; i < N_PIECES; i++)
                world_must_free(pointers[i], side);
}

/* Freed in the capture, as staging memory is. */
TEST(replays_read_what_was_written_before_the_free, .to = 2 * N_CAPTURE_MODES)
{
        void *results[N_PIECES];
        uint64_t n_reserved;
        CUgraph graph;

        start(_i);
        for (unsigned i = 0; i < N_PIECES; i++)
                results[i] = world_must_alloc(side, N_BYTES);
        capturer_begin(&capturer, captured, capture_modes[_i / 2]);
        for (unsigned i = 0; i < N_PIECES; i++) {
                void *staged = alloc_pinned(captured, (unsigned char)(0x61 + i));

                copy_to_device(results[i], staged, captured);
                world_must_free(staged, captured);
        }
        graph = capturer_end(&capturer, captured);
        for (unsigned round = 0; round < N_ROUNDS; round++) {
                write_elsewhere();
                for (unsigned i = 0; i < N_PIECES; i++)
                        world_fill(results[i], 0, N_BYTES, captured);
                capturer_replay(&capturer, graph, captured);
                for (unsigned i = 0; i < N_PIECES; i++)
                        world_check(results[i], (unsigned char)(0x61 + i), N_BYTES);
        }
        capturer_destroy(&capturer, graph);
        for (unsigned i = 0; i < N_PIECES; i++)
                world_must_free(results[i], captured);
        await_freed();
        /* It is anybody's now. */
        n_reserved = pinned_stats().n_reserved_bytes;
        for (unsigned i = 0; i < N_PIECES; i++)
                results[i] = alloc_pinned(side, 0);
        write_elsewhere();
        ck_assert_uint_le(pinned_stats().n_reserved_bytes, n_reserved);
        for (unsigned i = 0; i < N_PIECES; i++)
                world_must_free(results[i], side);
        world_everything_is_free();
}

/* The program or the graph frees it, and the graph writes or reads. */
TEST(it_stays_as_long_as_the_graph, .to = 2)
{
        void *pinned, *other, *source;
        CUgraph graph;

        start(_i);
        source = world_must_alloc(side, N_BYTES);
        world_fill(source, 0x71, N_BYTES, side);
        world_synchronize(side);
        capturer_begin(&capturer, captured, GLOBAL);
        pinned = alloc_pinned(captured, 0);
        DRIVER(cuMemcpyDtoHAsync, pinned, (CUdeviceptr)(uintptr_t)source, N_BYTES, captured);
        graph = capturer_end(&capturer, captured);
        world_must_free(pinned, captured);
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        other = alloc_pinned(captured, 0x72);
        ck_assert_ptr_ne(other, pinned);
        capturer_replay(&capturer, graph, captured);
        check_bytes(other, 0x72);
        capturer_destroy(&capturer, graph);
        world_must_free(other, captured);
        world_must_free(source, side);
        world_everything_is_free();
}

TEST(graph_pools_do_not_share_it, .to = 2)
{
        CUgraph graphs[2];
        void *pointers[2], *last;

        start(_i);
        ck_assert_int_eq(gpumem_graph_pool_begin(client, 1, captured, NULL), 0);
        for (unsigned i = 0; i < ARRAY_SIZE(graphs); i++) {
                capturer_begin(&capturer, captured, GLOBAL);
                last = world_must_alloc(captured, N_BYTES);
                pointers[i] = alloc_pinned(captured, (unsigned char)i);
                copy_to_device(last, pointers[i], captured);
                world_must_free(pointers[i], captured);
                world_must_free(last, captured);
                graphs[i] = capturer_end(&capturer, captured);
                world_must_free(world_must_alloc(captured, N_BYTES), captured);
                await_freed();
        }
        ck_assert_ptr_ne(pointers[0], pointers[1]);
        ck_assert_int_eq(gpumem_graph_pool_end(client, 1, captured), 0);
        for (unsigned i = 0; i < ARRAY_SIZE(graphs); i++) {
                capturer_replay(&capturer, graphs[i], captured);
                world_check(last, (unsigned char)i, N_BYTES);
                capturer_destroy(&capturer, graphs[i]);
        }
        world_everything_is_free();
}

/* What lives of a graph that is gone keeps no pool. */
TEST(it_outlives_the_graph, .to = 2)
{
        CUgraph graph;
        void *pinned, *pointer;

        start(_i);
        ck_assert_int_eq(gpumem_graph_pool_begin(client, 1, captured, NULL), 0);
        capturer_begin(&capturer, captured, GLOBAL);
        pointer = world_must_alloc(captured, MOST);
        pinned = alloc_pinned(captured, 0x73);
        copy_to_device(pointer, pinned, captured);
        world_must_free(pointer, captured);
        graph = capturer_end(&capturer, captured);
        ck_assert_int_eq(gpumem_graph_pool_end(client, 1, captured), 0);
        capturer_destroy(&capturer, graph);
        world_everything_is_free();
        check_bytes(pinned, 0x73);
        world_must_free(pinned, captured);
        await_freed();
}

TESTS_MAIN("capture pinned", .limit_s = 120, .stop = world_stop)
