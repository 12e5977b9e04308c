/* SPDX-License-Identifier: Apache-2.0 */
/* What stays of a burst in a process that goes on living, keeps a few small pieces, and asks for nothing. */
#include <pthread.h>

#include "base/err.h"
#include "tests/live/support/capturer.h"
#include "tests/live/support/gate.h"
#include "tests/live/support/world.h"
#include "tests/live/worlds/solo.h"

#define BURST_BYTES (4 * GIB)
#define PIECE_BYTES (4 * MIB - 4096)
#define N_PIECES    (BURST_BYTES / PIECE_BYTES)
#define N_KEPT      5

static struct cuda cuda;
static void *kept[N_KEPT];
static void *pieces[N_PIECES];

static void start(void)
{
        daemon_start_configured(
                &gpumemd, "devices=1,bytes=8GiB", OPTIONS("--log", "info"),
                "{\"pools\": [{\"device\": 0, \"return_after_seconds\": 1}, {\"pinned\": 0, "
                "\"max_bytes\": \"1GiB\", \"return_after_seconds\": 1}]}");
        /* The tests' default is that a client keeps nothing. */
        ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
        load_driver(&cuda);
        solo_open(getuid());
}

static void stop(void)
{
        solo_close();
        daemon_stop(&gpumemd);
}

static void *alloc_in(void *stream, enum gpumem_kind kind, uint64_t n_bytes)
{
        struct gpumem_request request = request_in(stream, kind, n_bytes);
        void *pointer;

        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), 0);
        return pointer;
}

/* Small pieces, which live on. Returns what the pool has for them. */
static uint64_t keep_some(void *stream)
{
        for (unsigned i = 0; i < N_KEPT; i++)
                kept[i] = alloc_in(stream, GPUMEM_DEVICE, 4096);
        return daemon_figure(FIGURE_reserved);
}

static void fill(void *stream)
{
        for (unsigned i = 0; i < N_PIECES; i++)
                pieces[i] = alloc_in(stream, GPUMEM_DEVICE, PIECE_BYTES);
        ck_assert_uint_ge(daemon_figure(FIGURE_reserved), N_PIECES * PIECE_BYTES);
}

/* From here on the process makes no call: its memory is looked at from outside. */
static void await_reserved(uint64_t n_bytes)
{
        uint64_t n_reserved_bytes = UINT64_MAX;

        for (unsigned ms = 0; n_reserved_bytes > n_bytes && ms < 8000; ms += 10) {
                sleep_ms(10);
                n_reserved_bytes = daemon_figure(FIGURE_reserved);
        }
        ck_assert_msg(n_reserved_bytes <= n_bytes, "%llu bytes stay, %llu are used",
                      (unsigned long long)n_reserved_bytes, (unsigned long long)n_bytes);
}

static void free_kept(void *stream)
{
        for (unsigned i = 0; i < N_KEPT; i++)
                ck_assert_int_eq(gpumem_free(client, kept[i], stream), 0);
}

/* FREE_IN_ORDER: as garbage collectors and Python's buffers free. */
enum free_how { FREE_IN_STREAM, FREE_IN_ORDER };

static int free_piece(void *piece, enum free_how how, void *stream)
{
        return how == FREE_IN_ORDER ? gpumem_free_in_order(client, piece)
                                    : gpumem_free(client, piece, stream);
}

/* The burst in one stream, each piece freed there. */
static void burst_in(void *stream, enum free_how how)
{
        uint64_t n_kept_bytes = keep_some(stream);

        fill(stream);
        for (unsigned i = 0; i < N_PIECES; i++)
                ck_assert_int_eq(free_piece(pieces[i], how, stream), 0);
        await_reserved(n_kept_bytes);
        free_kept(stream);
}

TEST(of_frees_in_a_stream_nothing_stays)
{
        burst_in(gpu_stream(gpu), FREE_IN_STREAM);
}

TEST(of_frees_in_the_default_stream_nothing_stays)
{
        burst_in(NULL, FREE_IN_STREAM);
}

/* The default stream, or a registered one: tests with .to = 2 run in both. */
static void *stream_of(int i)
{
        if (i == 0)
                return NULL;
        ck_assert_int_eq(gpumem_stream_register(client, gpu_stream(gpu)), 0);
        return gpu_stream(gpu);
}

static void unregister(void *stream)
{
        if (stream)
                ck_assert_int_eq(gpumem_stream_unregister(client, stream), 0);
}

TEST(of_frees_in_order_nothing_stays, .to = 2)
{
        void *stream = stream_of(_i);

        burst_in(stream, FREE_IN_ORDER);
        unregister(stream);
}

/* A loop frees more often than it may be recorded, and its last frees are not. The next call of any kind records them,
 * of any thread. */
static void *call_without_a_context(void *unused)
{
        (void)unused;
        (void)device_stats();
        return NULL;
}

static void await_with_calls(uint64_t n_bytes)
{
        uint64_t n_reserved_bytes = UINT64_MAX;
        pthread_t thread;

        for (unsigned ms = 0; n_reserved_bytes > n_bytes && ms < 8000; ms += 10) {
                sleep_ms(10);
                ck_assert_int_eq(pthread_create(&thread, NULL, call_without_a_context, NULL), 0);
                ck_assert_int_eq(pthread_join(thread, NULL), 0);
                n_reserved_bytes = daemon_figure(FIGURE_reserved);
        }
        ck_assert_uint_le(n_reserved_bytes, n_bytes);
}

static void loop(void *stream)
{
        for (unsigned i = 0; i < 5000; i++) {
                void *pointer = alloc_in(stream, GPUMEM_DEVICE, PIECE_BYTES);

                ck_assert_int_eq(gpumem_free_in_order(client, pointer), 0);
        }
}

TEST(what_a_loop_leaves_goes_with_the_next_call, .to = 2)
{
        void *stream = stream_of(_i);
        uint64_t n_kept_bytes = keep_some(stream);

        loop(stream);
        await_with_calls(n_kept_bytes);
        free_kept(stream);
        unregister(stream);
}

/* Neither the frees' marks nor those of later calls are over before the work that was there at the frees. */
TEST(work_in_the_stream_holds_it_up, .to = 2)
{
        void *stream = stream_of(_i);
        uint64_t n_kept_bytes = keep_some(stream);
        void *piece = alloc_in(stream, GPUMEM_DEVICE, PIECE_BYTES);
        struct gate gate;

        gate_init(&gate, &cuda);
        gate_hold(&gate, stream);
        ck_assert_int_eq(gpumem_free_in_order(client, piece), 0);
        loop(stream);
        for (unsigned i = 0; i < 60; i++) {
                sleep_ms(10);
                (void)call_without_a_context(NULL);
        }
        ck_assert_uint_eq(daemon_figure(FIGURE_idle), 0);
        ck_assert_uint_ge(daemon_figure(FIGURE_leased), n_kept_bytes + PIECE_BYTES);
        gate_open(&gate);
        await_with_calls(n_kept_bytes);
        free_kept(stream);
        gate_deinit(&gate);
        unregister(stream);
}

/* The default stream cannot be marked while a blocking stream captures. The capture is well, and the next call after
 * it marks. */
TEST(a_capture_puts_it_off, NEEDS_EMULATOR)
{
        uint64_t n_kept_bytes = keep_some(NULL);
        struct capturer capturer;
        CUstream blocking;

        DRIVER(cuStreamCreate, &blocking, CU_STREAM_DEFAULT);
        capturer_init(&capturer, &cuda);
        fill(NULL);
        capturer_begin(&capturer, blocking, CU_STREAM_CAPTURE_MODE_GLOBAL);
        for (unsigned i = 0; i < N_PIECES; i++)
                ck_assert_int_eq(gpumem_free_in_order(client, pieces[i]), 0);
        for (unsigned i = 0; i < 100; i++) {
                sleep_ms(10);
                (void)call_without_a_context(NULL);
        }
        ck_assert_uint_ge(daemon_figure(FIGURE_reserved), N_PIECES * PIECE_BYTES);
        capturer_destroy(&capturer, capturer_end(&capturer, blocking));
        await_with_calls(n_kept_bytes);
        free_kept(NULL);
        DRIVER(cuStreamDestroy, blocking);
}

/* A stream that is not registered may be destroyed, so only a call that names it can mark it. */
static uint64_t free_in_unknown_order(void)
{
        uint64_t n_kept_bytes = keep_some(gpu_stream(gpu));

        fill(gpu_stream(gpu));
        for (unsigned i = 0; i < N_PIECES; i++)
                ck_assert_int_eq(gpumem_free_in_order(client, pieces[i]), 0);
        return n_kept_bytes;
}

TEST(in_order_in_an_unknown_stream_it_goes_with_frees_there)
{
        uint64_t n_kept_bytes = free_in_unknown_order();

        for (unsigned i = 0; i < 800 && daemon_figure(FIGURE_reserved) > n_kept_bytes; i++) {
                must_free(kept[0]);
                kept[0] = must_alloc(GPUMEM_DEVICE, 4096);
                sleep_ms(10);
        }
        ck_assert_uint_le(daemon_figure(FIGURE_reserved), n_kept_bytes);
        free_kept(gpu_stream(gpu));
}

TEST(in_order_in_an_unknown_stream_it_goes_with_allocations_there)
{
        uint64_t n_kept_bytes = free_in_unknown_order();
        void *more[800];
        unsigned n = 0;

        while (n < ARRAY_SIZE(more) && daemon_figure(FIGURE_reserved) > n_kept_bytes) {
                more[n++] = must_alloc(GPUMEM_DEVICE, 512);
                sleep_ms(10);
        }
        ck_assert_uint_le(daemon_figure(FIGURE_reserved), n_kept_bytes);
        while (n)
                must_free(more[--n]);
        free_kept(gpu_stream(gpu));
}

/* To unregister it would wait for kernels. */
TEST(pinned_memory_stays_registered_until_a_flush)
{
        void *pointer = must_alloc(GPUMEM_PINNED, 64 * MIB);

        must_free(pointer);
        must_free(must_alloc(GPUMEM_DEVICE, 64 * MIB));
        daemon_await_first(FIGURE_reserved, 0, 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_reserved), 64 * MIB);
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        daemon_await(FIGURE_reserved, 0);
}

TESTS_MAIN("what_stays", .limit_s = 60, .start = start, .stop = stop)
