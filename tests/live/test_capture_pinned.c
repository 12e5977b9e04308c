/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned memory that is allocated while a stream captures: every replay reads what the CPU wrote there. */
#include <string.h>

#include "base/err.h"
#include "tests/live/capture_world.h"
#include "tests/live/daemon.h"
#include "tests/suite.h"

#define N_PIECES 4
#define N_ROUNDS 3

static void *alloc_pinned(CUstream stream, unsigned char byte)
{
        struct gpumem_request request = {.struct_size = sizeof(request),
                                         .kind = GPUMEM_PINNED,
                                         .place = GPUMEM_NEAREST,
                                         .stream = stream,
                                         .n_bytes = N_BYTES};
        void *pointer;

        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), 0);
        memset(pointer, byte, N_BYTES);
        return pointer;
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
        ck_assert_int_eq(CUDA_CALL(&cuda, cuMemcpyHtoDAsync, (CUdeviceptr)(uintptr_t)to, from,
                                   N_BYTES, stream),
                         0);
}

static struct gpumem_stats pinned_stats(void)
{
        struct gpumem_stats stats = {.struct_size = sizeof(stats)};

        ck_assert_int_eq(gpumem_get_stats(client, GPUMEM_PINNED, GPUMEM_NEAREST, &stats), 0);
        return stats;
}

/* What was freed in a capture is, once the stream has come so far. */
static void await_freed(void)
{
        while (pinned_stats().n_allocated_bytes)
                sleep_ms(1);
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

static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
                                            CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                            CU_STREAM_CAPTURE_MODE_RELAXED};

/* Freed in the capture, as staging memory is. */
START_TEST(replays_read_what_was_written_before_the_free)
{
        void *results[N_PIECES];
        uint64_t n_reserved;
        CUgraph graph;

        for (unsigned i = 0; i < N_PIECES; i++)
                results[i] = world_must_alloc(side, N_BYTES);
        capturer_begin(&capturer, captured, modes[_i]);
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
END_TEST

/* Whoever frees it, and whether the graph writes or reads. */
START_TEST(it_stays_as_long_as_the_graph)
{
        void *pinned, *other, *source = world_must_alloc(side, N_BYTES);
        CUgraph graph;

        world_fill(source, 0x71, N_BYTES, side);
        ck_assert_int_eq(CUDA_CALL(&cuda, cuStreamSynchronize, side), 0);
        capturer_begin(&capturer, captured, GLOBAL);
        pinned = alloc_pinned(captured, 0);
        ck_assert_int_eq(CUDA_CALL(&cuda, cuMemcpyDtoHAsync, pinned, (CUdeviceptr)(uintptr_t)source,
                                   N_BYTES, captured),
                         0);
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
END_TEST

START_TEST(graph_pools_do_not_share_it)
{
        CUgraph graphs[2];
        void *pointers[2], *last;

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
END_TEST

/* What lives of a graph that is gone keeps no pool. */
START_TEST(it_outlives_the_graph)
{
        CUgraph graph;
        void *pinned, *pointer;

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
END_TEST

static TCase *tests_with(const char *name, void (*start)(void))
{
        TCase *tests = tcase_create(name);

        tcase_set_timeout(tests, 120);
        tcase_add_checked_fixture(tests, start, world_stop);
        tcase_add_loop_test(tests, replays_read_what_was_written_before_the_free, 0,
                            ARRAY_SIZE(modes));
        tcase_add_test(tests, it_stays_as_long_as_the_graph);
        tcase_add_test(tests, graph_pools_do_not_share_it);
        tcase_add_test(tests, it_outlives_the_graph);
        return tests;
}

int main(void)
{
        Suite *suite = suite_create("capture pinned");

        suite_add_tcase(suite, tests_with("memfd", world_start));
        suite_add_tcase(suite, tests_with("vmm", world_start_vmm));
        return run_suite(suite);
}
