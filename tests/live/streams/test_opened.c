/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that are opened, gpumem_stream_open: allocations and frees by the handle. */
#include <pthread.h>

#include "tests/live/support/world.h"
#include "tests/live/worlds/capture_world.h"

#define N_CLOSED 64 /* handles that are found after their close */

static struct gpumem_stream *opened; /* of `side` */

static struct gpumem_stream *open_handle(void *stream)
{
        struct gpumem_stream *handle;

        ck_assert_int_eq(gpumem_stream_open(client, stream, &handle), 0);
        return handle;
}

static void start(void)
{
        world_start();
        opened = open_handle(side);
}

static void stop(void)
{
        world_stop();
}

static void *alloc(struct gpumem_stream *handle, uint64_t n_bytes)
{
        void *pointer;

        ck_assert_int_eq(gpumem_stream_alloc(handle, n_bytes, &pointer), 0);
        return pointer;
}

static void free_by(struct gpumem_stream *handle, void *pointer)
{
        ck_assert_int_eq(gpumem_stream_free(handle, pointer), 0);
}

TEST(what_is_freed_comes_again)
{
        void *pointer = alloc(opened, N_BYTES), *again;
        uint64_t n_hits = world_stats().n_hits;

        free_by(opened, pointer);
        again = alloc(opened, N_BYTES);
        ck_assert_ptr_eq(again, pointer);
        ck_assert_uint_eq(world_stats().n_hits, n_hits + 1);
        free_by(opened, again);
        ck_assert_int_eq(gpumem_stream_free(opened, again), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(gpumem_stream_free(opened, &again), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(gpumem_stream_free(opened, NULL), 0);
        ck_assert_uint_eq(world_stats().n_live, 0);
}

TEST(refusals_are_those_of_the_plain_call)
{
        void *pointer = NULL;

        ck_assert_int_eq(gpumem_stream_alloc(opened, 0, &pointer), GPUMEM_E_BAD_REQUEST);
        last_refusal_says(client, GPUMEM_E_BAD_REQUEST, "n_bytes is 0");
        ck_assert_int_eq(gpumem_stream_alloc(opened, 1 << 30, &pointer), GPUMEM_E_TOO_LARGE);
        ck_assert_ptr_null(pointer);
}

/* Memory is the stream's, whichever call asks for it. */
TEST(plain_calls_and_the_handle_alternate)
{
        void *pointer = world_must_alloc(side, N_BYTES);

        free_by(opened, pointer);
        ck_assert_ptr_eq(alloc(opened, N_BYTES), pointer);
        world_must_free(pointer, side);
        ck_assert_ptr_eq(world_must_alloc(side, N_BYTES), pointer);
        ck_assert_int_eq(gpumem_free_in_order(client, pointer), 0);
        ck_assert_ptr_eq(alloc(opened, N_BYTES), pointer);
        ck_assert_int_eq(gpumem_free_sync(client, pointer), 0);
        pointer = world_alloc_as(GPUMEM_PINNED, side, N_BYTES, 0);
        free_by(opened, pointer);
        pointer = world_must_alloc(branch, N_BYTES);
        free_by(opened, pointer);
        world_everything_is_free();
}

/* While its work is held up, its memory is reused in this stream only. */
TEST(its_memory_is_in_its_order)
{
        void *pointer = alloc(opened, N_BYTES), *other;

        gate_hold(&gate, side);
        free_by(opened, pointer);
        ck_assert_ptr_eq(alloc(opened, N_BYTES), pointer);
        free_by(opened, pointer);
        other = world_must_alloc(branch, N_BYTES);
        ck_assert_ptr_ne(other, pointer);
        gate_open(&gate);
        world_must_free(other, branch);
}

/* A use that is recorded still counts. */
TEST(recorded_uses_are_waited_for)
{
        void *pointer = alloc(opened, N_BYTES), *other;

        ck_assert_int_eq(gpumem_record_use(client, pointer, branch), 0);
        gate_hold(&gate, branch);
        free_by(opened, pointer);
        ck_assert_int_eq(gpumem_stream_free(opened, pointer), GPUMEM_E_NOT_OURS);
        other = alloc(opened, N_BYTES);
        ck_assert_ptr_ne(other, pointer);
        gate_open(&gate);
        free_by(opened, other);
}

TEST(a_stream_has_one_handle)
{
        struct gpumem_stream *other = open_handle(branch);
        void *pointer;

        ck_assert_ptr_ne(other, opened);
        ck_assert_ptr_eq(open_handle(side), opened);
        pointer = alloc(opened, N_BYTES);
        ck_assert_int_eq(gpumem_stream_close(opened), 0);
        free_by(opened, pointer);
        ck_assert_int_eq(gpumem_stream_close(opened), 0);
        ck_assert_int_eq(gpumem_stream_close(opened), GPUMEM_E_CLOSED);
        free_by(other, alloc(other, N_BYTES));
        ck_assert_int_eq(gpumem_stream_close(NULL), 0);
}

TEST(a_closed_handle_is_found)
{
        void *pointer = alloc(opened, N_BYTES), *none = NULL;
        CUstream stream;

        ck_assert_int_eq(gpumem_stream_close(opened), 0);
        for (unsigned i = 1; i < N_CLOSED; i++) {
                stream = world_new_stream();
                ck_assert_int_eq(gpumem_stream_close(open_handle(stream)), 0);
                DRIVER(cuStreamDestroy, stream);
        }
        ck_assert_int_eq(gpumem_stream_alloc(opened, N_BYTES, &none), GPUMEM_E_CLOSED);
        ck_assert_int_eq(gpumem_stream_free(opened, pointer), GPUMEM_E_CLOSED);
        ck_assert_int_eq(gpumem_stream_close(opened), GPUMEM_E_CLOSED);
        ck_assert_ptr_null(none);
        ck_assert_int_eq(gpumem_free_in_order(client, pointer), 0);
        world_everything_is_free();
}

TEST(what_cannot_be_opened)
{
        struct gpumem_stream *handle = NULL;
        CUcontext context;

        ck_assert_int_eq(gpumem_stream_open(client, CU_STREAM_PER_THREAD, &handle),
                         GPUMEM_E_UNSUPPORTED);
        capturer_begin(&capturer, captured, GLOBAL);
        ck_assert_int_eq(gpumem_stream_open(client, captured, &handle), GPUMEM_E_CAPTURES);
        capturer_destroy(&capturer, capturer_end(&capturer, captured));
        DRIVER(cuCtxGetCurrent, &context);
        DRIVER(cuCtxSetCurrent, NULL);
        ck_assert_int_eq(gpumem_stream_open(client, NULL, &handle), GPUMEM_E_NO_CONTEXT);
        DRIVER(cuCtxSetCurrent, context);
        ck_assert_ptr_null(handle);
}

static void *use_without_a_context(void *handle)
{
        void *pointer = alloc(handle, N_BYTES), *again;

        free_by(handle, pointer);
        again = alloc(handle, N_BYTES);
        ck_assert_ptr_eq(again, pointer);
        /* A second block: the calls do more than to look into the heap. */
        free_by(handle, alloc(handle, 64 * MIB));
        return again;
}

/* Its context is the one at the open. Both of its names mean one stream. */
TEST(a_default_stream_needs_no_context_later)
{
        struct gpumem_stream *handle = open_handle(NULL);
        pthread_t thread;
        void *pointer;

        ck_assert_ptr_eq(open_handle(CU_STREAM_LEGACY), handle);
        ck_assert_int_eq(pthread_create(&thread, NULL, use_without_a_context, handle), 0);
        ck_assert_int_eq(pthread_join(thread, &pointer), 0);
        world_must_free(pointer, NULL);
        ck_assert_ptr_eq(world_must_alloc(NULL, N_BYTES), pointer);
        free_by(handle, pointer);
        ck_assert_int_eq(gpumem_stream_close(handle), 0);
        ck_assert_int_eq(gpumem_stream_close(handle), 0);
        world_everything_is_free();
}

/* A little less than a block: what is allocated next to it keeps the block in its stream, however long a test takes. */
#define N_OWN (N_BYTES - 512)

/* The program's own call of the driver begins the capture, as another library's would. What is allocated then is the
 * graph's: it is not reused while the graph exists, though the capture has freed it. */
TEST(captures_that_others_begin, .to = N_CAPTURE_MODES)
{
        void *before = alloc(opened, N_OWN), *kept = alloc(opened, 512), *inside, *after;
        CUgraph graph;

        free_by(opened, before);
        capturer_begin(&capturer, side, capture_modes[_i]);
        inside = alloc(opened, N_BYTES);
        ck_assert_ptr_ne(inside, before);
        world_fill(inside, 0x77, N_BYTES, side);
        free_by(opened, inside);
        ck_assert_ptr_eq(alloc(opened, N_BYTES), inside);
        free_by(opened, inside);
        graph = capturer_end(&capturer, side);
        after = alloc(opened, N_OWN);
        ck_assert_ptr_eq(after, before);
        world_fill(after, 0x33, N_OWN, side);
        capturer_replay(&capturer, graph, side);
        world_check(after, 0x33, N_OWN);
        capturer_destroy(&capturer, graph);
        free_by(opened, after);
        free_by(opened, kept);
        world_everything_is_free();
}

static const char *const caches[] = {"0", "8MiB", NULL};

/* The free asks nothing, and waits for nothing that would end the capture. The graph gets none of it, unless it has
 * left the stream meanwhile. */
TEST(memory_from_before_a_capture_is_freed_in_it, .to = ARRAY_SIZE(caches) * N_CAPTURE_MODES)
{
        const char *cache = caches[_i / N_CAPTURE_MODES];
        struct gpumem_client *plain = client;
        void *pointers[8], *inside;

        if (cache)
                ck_assert_int_eq(setenv("GPUMEM_CACHE_SIZE", cache, 1), 0);
        client = connect_client();
        gpumem_disconnect(plain);
        opened = open_handle(side);
        for (unsigned i = 0; i < ARRAY_SIZE(pointers); i++)
                pointers[i] = alloc(opened, N_BYTES);
        capturer_begin(&capturer, side, capture_modes[_i % N_CAPTURE_MODES]);
        for (unsigned i = 0; i < ARRAY_SIZE(pointers); i++)
                free_by(opened, pointers[i]);
        inside = alloc(opened, N_BYTES);
        for (unsigned i = 0; i < ARRAY_SIZE(pointers); i++)
                ck_assert(cache || inside != pointers[i]);
        free_by(opened, inside);
        capturer_destroy(&capturer, capturer_end(&capturer, side));
        free_by(opened, alloc(opened, N_BYTES));
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        ck_assert_uint_eq(world_stats().n_reserved_bytes, 0);
}

/* Memory that the handle allocates while a graph pool is open in its stream is the pool's. */
TEST(graph_pools_open_and_close_under_it)
{
        void *own = alloc(opened, N_OWN), *kept = alloc(opened, 512), *pooled;
        uint64_t id;

        free_by(opened, own);
        id = world_begin_pool(0, side);
        pooled = alloc(opened, N_BYTES);
        ck_assert_ptr_ne(pooled, own);
        free_by(opened, pooled);
        ck_assert_ptr_eq(alloc(opened, N_BYTES), pooled);
        world_end_pool(id, side);
        ck_assert_ptr_eq(alloc(opened, N_OWN), own);
        free_by(opened, own);
        free_by(opened, pooled);
        free_by(opened, kept);
        world_everything_is_free();
}

/* A stream whose handle has the value that `handle` had; NULL: the driver gives others. */
static CUstream make_again(CUstream handle)
{
        CUstream streams[64], found = NULL;
        unsigned n = 0;

        do
                streams[n] = world_new_stream();
        while (streams[n++] != handle && n < ARRAY_SIZE(streams));
        for (unsigned i = 0; i < n; i++) {
                if (streams[i] == handle)
                        found = handle;
                else
                        DRIVER(cuStreamDestroy, streams[i]);
        }
        return found;
}

/* The next stream has a handle and a heap of its own, even where the driver gives it the same name. */
TEST(a_stream_that_is_destroyed_and_made_again)
{
        void *kept = alloc(opened, N_BYTES), *other;
        struct gpumem_stream *before = opened;
        CUstream again;

        world_fill(kept, 0x5a, N_BYTES, side);
        world_synchronize(side);
        ck_assert_int_eq(gpumem_stream_close(opened), 0);
        DRIVER(cuStreamDestroy, side);
        again = make_again(side);
        if (!again) {
                (void)puts("# the driver did not use the handle again");
                again = world_new_stream();
        }
        side = again;
        opened = open_handle(side);
        ck_assert_ptr_ne(opened, before);
        other = alloc(opened, N_BYTES);
        world_fill(other, 0x33, N_BYTES, side);
        world_synchronize(side);
        ck_assert_int_eq(gpumem_stream_free(before, kept), GPUMEM_E_CLOSED);
        world_check(kept, 0x5a, N_BYTES);
        ck_assert_int_eq(gpumem_free_in_order(client, kept), 0);
        ck_assert_ptr_ne(alloc(opened, N_BYTES), kept);
        world_check(other, 0x33, N_BYTES);
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
}

/* What was freed by the handle goes to others after its close, though no call names the stream any more. */
TEST(others_get_its_memory_after_the_close)
{
        free_by(opened, alloc(opened, MOST));
        ck_assert_int_eq(gpumem_stream_close(opened), 0);
        DRIVER(cuStreamDestroy, side);
        world_everything_is_free();
}

TEST(a_forked_child_has_no_handle)
{
        void *pointer = alloc(opened, N_BYTES), *other;
        int status;
        pid_t pid = fork();

        if (pid == 0) {
                bool is_right = gpumem_stream_alloc(opened, N_BYTES, &other) == GPUMEM_E_FORKED &&
                                gpumem_stream_free(opened, pointer) == GPUMEM_E_FORKED &&
                                gpumem_stream_close(opened) == GPUMEM_E_FORKED;

                gpumem_disconnect(client);
                _exit(is_right ? 0 : 1);
        }
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
        free_by(opened, pointer);
}

TEST(the_next_daemon_serves_it)
{
        void *pointer = alloc(opened, N_BYTES), *more;

        daemon_kill(&gpumemd);
        free_by(opened, pointer);
        ck_assert_ptr_eq(alloc(opened, N_BYTES), pointer);
        daemon_restart(&gpumemd, NULL, OPTIONS("--device-bytes", "256MiB"));
        more = alloc(opened, 64 * MIB);
        free_by(opened, pointer);
        free_by(opened, more);
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        ck_assert_uint_eq(world_stats().n_reserved_bytes, 0);
}

TESTS_MAIN("opened", .limit_s = 60, .start = start, .stop = stop)
