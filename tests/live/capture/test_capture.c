/* SPDX-License-Identifier: Apache-2.0 */
/* A client's calls while a stream captures do not change the capture. */
#include <pthread.h>

#include "base/err.h"
#include "base/fdset.h"
#include "tests/live/support/daemon.h"
#include "tests/live/worlds/capture_world.h"
#include "tests/suite.h"

#define N_THREADS 3
#define N_ROUNDS  20

static void *kept;

static void capture(CUstreamCaptureMode mode)
{
        kept = world_must_alloc(captured, N_BYTES);
        capturer_begin(&capturer, captured, mode);
}

/* The bytes are there after a replay, whatever was there before. */
static void end_and_replay(unsigned char byte)
{
        CUgraph graph = capturer_end(&capturer, captured);

        world_fill(kept, (unsigned char)~byte, N_BYTES, captured);
        capturer_replay(&capturer, graph, captured);
        world_check(kept, byte, N_BYTES);
        capturer_destroy(&capturer, graph);
}

/* Every way in which memory comes and goes. */
static void use_everything(CUstream stream)
{
        void *plain = world_must_alloc(stream, 6 * MIB);
        void *others = world_must_alloc(stream, N_BYTES);
        void *used = world_must_alloc(stream, 2 * MIB);
        void *pinned = world_alloc_as(GPUMEM_PINNED, stream, 2 * MIB, 0);
        void *shared = world_alloc_as(GPUMEM_DEVICE, stream, 2 * MIB, GPUMEM_SHAREABLE);
        void *registered = world_alloc_as(GPUMEM_DEVICE, stream, 2 * MIB, GPUMEM_RDMA);
        int dma_buf = -1;

        world_fill(plain, 0x11, 6 * MIB, stream);
        ck_assert_int_eq(gpumem_record_use(client, used, side), 0);
        world_must_free(plain, stream);
        world_must_free(others, side);
        world_must_free(used, stream);
        world_must_free(pinned, stream);
        world_must_free(shared, stream);
        ck_assert_int_eq(gpumem_export_dmabuf(client, registered, 2 * MIB, &dma_buf), 0);
        closep(&dma_buf);
        world_must_free(registered, stream);
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        plain = world_must_alloc(stream, 3 * MIB);
        ck_assert_int_eq(gpumem_free_sync(client, plain), 0);
}

/* The other calls that give memory back, or look at it. */
static void give_everything_back(CUstream stream)
{
        void *plain = world_must_alloc(stream, 6 * MIB);
        void *pinned = world_alloc_as(GPUMEM_PINNED, stream, 2 * MIB, 0);

        ck_assert_int_eq(gpumem_free_in_order(client, plain), 0);
        world_must_free(pinned, stream);
        AWAIT(nearest_stats(client, GPUMEM_PINNED).n_cached_bytes >= 2 * MIB);
        ck_assert_int_eq(gpumem_trim_idle(client, 0, NULL), 0);
        ck_assert_int_eq(gpumem_trim(client, 1, NULL), 0);
        ck_assert_int_eq(gpumem_reserve(client, GPUMEM_NEAREST, 8 * MIB, 0), 0);
        ck_assert_int_eq(gpumem_reserve(client, GPUMEM_NEAREST, 0, 0), 0);
        plain = world_must_alloc(stream, 6 * MIB);
        ck_assert_int_eq(gpumem_free_later(client, plain), 0);
        ck_assert_int_eq(gpumem_set_cache_size(client, 0), 0);
        ck_assert_int_eq(gpumem_set_cache_size(client, GPUMEM_NO_LIMIT), 0);
        ck_assert_int_eq(gpumem_free_all_blocks(client, GPUMEM_SCOPE_TENANT, NULL), 0);
}

static void *churn(void *argument)
{
        CUstream stream;

        (void)argument;
        ck_assert_int_eq(gpu_use(gpu), 0);
        stream = world_new_stream();
        for (unsigned i = 0; i < N_ROUNDS; i++)
                use_everything(stream);
        return NULL;
}

TEST(other_threads_do_not_end_it, .to = N_CAPTURE_MODES)
{
        pthread_t threads[N_THREADS];

        capture(capture_modes[_i]);
        for (unsigned i = 0; i < N_THREADS; i++)
                ck_assert_int_eq(pthread_create(&threads[i], NULL, churn, NULL), 0);
        world_fill(kept, 0x5a, N_BYTES, captured);
        for (unsigned i = 0; i < N_THREADS; i++)
                ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        world_fill(kept, 0xa5, N_BYTES / 2, captured);
        world_fill((char *)kept + N_BYTES / 2, 0xa5, N_BYTES / 2, captured);
        end_and_replay(0xa5);
}

/* The driver is strictest with the capturing thread itself. */
TEST(its_own_thread_does_not_either, .to = N_CAPTURE_MODES)
{
        capture(capture_modes[_i]);
        world_fill(kept, 0x5a, N_BYTES, captured);
        use_everything(gpu_stream(gpu));
        end_and_replay(0x5a);
}

TEST(what_its_own_thread_gives_back_does_not_either, .to = N_CAPTURE_MODES)
{
        capture(capture_modes[_i]);
        world_fill(kept, 0x5a, N_BYTES, captured);
        give_everything_back(gpu_stream(gpu));
        end_and_replay(0x5a);
}

/* What the service thread marks idle another process takes, and this one unmaps. */
TEST(what_is_taken_away_does_not_end_it, .to = N_CAPTURE_MODES)
{
        void *pointer;

        capture(capture_modes[_i]);
        for (unsigned i = 0; i < 5; i++) {
                pointer = world_must_alloc(gpu_stream(gpu), MOST);
                world_fill(pointer, 0x11, MOST, gpu_stream(gpu));
                world_must_free(pointer, gpu_stream(gpu));
                ck_assert_int_eq(holder_alloc(&holder, MOST, LONG_MS), 0);
                ck_assert_int_eq(world_alloc(side, MOST, 0, &pointer), GPUMEM_E_REFUSED);
                holder_check(&holder);
                holder_free_all(&holder);
        }
        world_fill(kept, 0x77, N_BYTES, captured);
        end_and_replay(0x77);
}

/* The mode that the program has chosen for a thread is its own. */
TEST(a_threads_mode_is_left_as_it_was)
{
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;

        DRIVER(cuThreadExchangeStreamCaptureMode, &mode);
        use_everything(gpu_stream(gpu));
        mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
        DRIVER(cuThreadExchangeStreamCaptureMode, &mode);
        ck_assert_int_eq(mode, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
}

TESTS_MAIN("capture", .limit_s = 120, .start = world_start, .stop = world_stop)
