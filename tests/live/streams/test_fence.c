/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is freed in one stream while another stream still uses it, and that waits for this use only
 * later: no other stream, process or allocation gets it before the use is over, on any way out of its
 * stream. */
#include <pthread.h>
#include <stdatomic.h>

#include "tests/live/support/capturer.h"
#include "tests/live/support/gate.h"
#include "tests/live/support/world.h"

/* All of a pool: one allocation leaves no room for another. */
#define N_BYTES (64 * MIB)
#define LONG_MS 60000 /* of work that takes seconds under a sanitizer */
#define HELD_MS 50

static struct gpu *gpu;
static struct cuda cuda;
static struct gate gate;
static struct capturer capturer;
static struct gpumem_client *client, *other;
static CUstream owner, user, third;
static CUdeviceptr scratch;
static uint64_t n_bytes;
static _Atomic bool is_open;

static void connect_with(const char *fence, const char *cache_size, const char *service_thread)
{
        ck_assert_int_eq(setenv("GPUMEM_FENCE", fence, 1), 0);
        ck_assert_int_eq(setenv("GPUMEM_CACHE_SIZE", cache_size, 1), 0);
        ck_assert_int_eq(setenv("GPUMEM_SERVICE_THREAD", service_thread, 1), 0);
        client = connect_client();
        if (strcmp(fence, "streams") == 0) {
                ck_assert_int_eq(gpumem_stream_register(client, owner), 0);
                ck_assert_int_eq(gpumem_stream_register(client, user), 0);
        }
}

static CUstream new_stream(void)
{
        CUstream stream;

        DRIVER(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
        return stream;
}

static void start(void)
{
        daemon_start(&gpumemd, "devices=1,bytes=256MiB",
                     OPTIONS("--device-bytes", "64MiB", "--pinned-bytes", "64MiB"));
        gpu = use_gpu();
        load_driver(&cuda);
        owner = new_stream();
        user = new_stream();
        third = new_stream();
        gate_init(&gate, &cuda);
        capturer_init(&capturer, &cuda);
        DRIVER(cuMemAlloc, &scratch, N_BYTES);
        DRIVER(cuMemsetD8Async, scratch, 0xbb, N_BYTES, owner);
        DRIVER(cuStreamSynchronize, owner);
        n_bytes = N_BYTES;
        is_open = false;
}

static void stop(void)
{
        gate_deinit(&gate);
        DRIVER(cuMemFree, scratch);
        gpumem_disconnect(client);
        gpumem_disconnect(other);
        client = other = NULL;
        gpu_free(gpu);
        gpumemd_stop_uncharged();
}

static int try_alloc(struct gpumem_client *from, enum gpumem_kind kind, CUstream stream,
                     uint32_t flags, void **ret_pointer)
{
        struct gpumem_request request = request_in(stream, kind, n_bytes);

        request.flags = flags;
        request.wait_ms = LONG_MS;
        return gpumem_alloc(from, &request, ret_pointer);
}

static void *must_alloc(struct gpumem_client *from, enum gpumem_kind kind, CUstream stream,
                        uint32_t flags)
{
        void *pointer;

        ck_assert_int_eq(try_alloc(from, kind, stream, flags, &pointer), 0);
        return pointer;
}

static int refused_without_waiting(struct gpumem_client *from)
{
        struct gpumem_request request = request_in(third, GPUMEM_DEVICE, n_bytes);
        void *pointer;

        return gpumem_alloc(from, &request, &pointer);
}

/* Device memory of the client. */
static void *must_alloc_in(CUstream stream)
{
        return must_alloc(client, GPUMEM_DEVICE, stream, 0);
}

/* The user's work: it writes late. */
static void use_late(enum gpumem_kind kind, void *pointer)
{
        gate_hold(&gate, user);
        if (kind == GPUMEM_DEVICE)
                DRIVER(cuMemsetD8Async, (CUdeviceptr)(uintptr_t)pointer, 0xbb, N_BYTES, user);
        else
                DRIVER(cuMemcpyDtoHAsync, pointer, scratch, N_BYTES, user);
}

static void *open_later(void *unused)
{
        sleep_ms(HELD_MS);
        atomic_store(&is_open, true);
        gate_open(&gate);
        return unused;
}

static void fill(enum gpumem_kind kind, void *pointer)
{
        if (kind == GPUMEM_PINNED) {
                memset(pointer, 0xcc, N_BYTES);
                return;
        }
        DRIVER(cuMemsetD8Async, (CUdeviceptr)(uintptr_t)pointer, 0xcc, N_BYTES, third);
        DRIVER(cuStreamSynchronize, third);
}

/* Bytes of the new owner's that are not its own any more. */
static uint64_t count_wrong(enum gpumem_kind kind, const void *pointer)
{
        unsigned char *bytes = malloc(N_BYTES);
        uint64_t n_wrong = 0;

        ck_assert_ptr_nonnull(bytes);
        if (kind == GPUMEM_PINNED)
                memcpy(bytes, pointer, N_BYTES);
        else {
                DRIVER(cuMemcpyDtoHAsync, bytes, (CUdeviceptr)(uintptr_t)pointer, N_BYTES, third);
                DRIVER(cuStreamSynchronize, third);
        }
        for (uint64_t i = 0; i < N_BYTES; i++)
                n_wrong += bytes[i] != 0xcc;
        free(bytes);
        return n_wrong;
}

static void free_in(void *pointer, CUstream stream)
{
        ck_assert_int_eq(gpumem_free(client, pointer, stream), 0);
}

/* What is done to memory before it is freed, or after that to have it leave its stream. */
static void record(void *pointer)
{
        ck_assert_int_eq(gpumem_record_use(client, pointer, third), 0);
}

static void unregister_user(void *pointer)
{
        (void)pointer;
        ck_assert_int_eq(gpumem_stream_unregister(client, user), 0);
}

static void renew_user(void)
{
        DRIVER(cuStreamDestroy, user);
        user = new_stream();
        ck_assert_int_eq(gpumem_stream_register(client, user), 0);
}

static void connect_other(void)
{
        other = connect_client();
}

static void flush(void)
{
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
}

static void disconnect(void)
{
        gpumem_disconnect(client);
        client = NULL;
}

static void end_pool(void)
{
        ck_assert_int_eq(gpumem_graph_pool_end(client, 7, owner), 0);
}

/* How memory leaves its stream. */
struct way {
        const char *name;
        void (*before)(void *pointer);
        CUstream *freed_in;
        void (*after)(void);
        CUstream *had_in;           /* where its bytes may be an allocation's then, or NULL */
        const char *cache_size;     /* "": blocks are shared as soon as they are idle */
        const char *service_thread; /* "": there is one */
        uint32_t flags;
        bool is_for_pinned;
        bool is_registered; /* only with registered streams */
};

/* Without a cache the free itself unmaps. In its own stream memory is to be had at once only when its free was ordered
 * there. What a stream had to do when it was unregistered counts after its end, too. */
static const struct way ways[] = {
        {"adopted", NULL, &owner, NULL, &third, "", "", 0, true, false},
        {"adopted, without a thread", NULL, &owner, NULL, &third, "", "0", 0, true, false},
        {"adopted, without a cache", NULL, &owner, NULL, &third, "0", "", 0, true, false},
        {"another client's", NULL, &owner, connect_other, &third, "", "", 0, false, false},
        {"flushed", NULL, &owner, flush, NULL, "", "", 0, true, false},
        {"disconnected", NULL, &owner, disconnect, NULL, "", "", 0, true, false},
        {"returned", NULL, &owner, NULL, NULL, "0", "", 0, false, false},
        {"shared", NULL, &owner, NULL, NULL, "", "", GPUMEM_SHAREABLE, true, false},
        {"registered", NULL, &owner, NULL, NULL, "", "", GPUMEM_REGISTERED, true, false},
        {"freed in a third stream", NULL, &third, NULL, &owner, "", "", 0, true, false},
        {"recorded", record, &owner, NULL, &third, "", "", 0, true, false},
        {"of a stream that goes", unregister_user, &owner, renew_user, &third, "", "", 0, true,
         true},
        {"of a graph pool", NULL, &owner, end_pool, NULL, "", "", 0, false, false},
};
#define N_WAYS ((int)ARRAY_SIZE(ways))

static void leave_by(const struct way *way, enum gpumem_kind kind, const char *fence)
{
        void *pointer, *next = NULL;
        pthread_t opener;

        connect_with(fence, way->cache_size, way->service_thread);
        if (way->after == end_pool)
                ck_assert_int_eq(gpumem_graph_pool_begin(client, 7, owner, NULL), 0);
        pointer = must_alloc(client, kind, owner, way->flags);
        use_late(kind, pointer);
        ck_assert_int_eq(pthread_create(&opener, NULL, open_later, NULL), 0);
        if (way->before)
                way->before(pointer);
        free_in(pointer, *way->freed_in);
        if (way->after)
                way->after();
        if (way->had_in)
                next = must_alloc(other ? other : client, kind, *way->had_in, 0);
        ck_assert_msg(atomic_load(&is_open), "%s, by %s: it left too early", way->name, fence);
        if (next)
                fill(kind, next);
        ck_assert_int_eq(pthread_join(opener, NULL), 0);
        DRIVER(cuStreamSynchronize, user);
        if (next)
                ck_assert_uint_eq(count_wrong(kind, next), 0);
}

/* Of each kind, and after all registered streams or the whole context. */
TEST(memory_leaves_after_all_that_may_use_it, .to = 4 * N_WAYS)
{
        const struct way *way = &ways[_i / 4];
        bool is_pinned = _i & 1, of_context = _i & 2;

        if ((is_pinned && !way->is_for_pinned) ||
            (of_context && (way->is_registered || !cuda.cuCtxRecordEvent)))
                return;
        leave_by(way, is_pinned ? GPUMEM_PINNED : GPUMEM_DEVICE,
                 of_context ? "context" : "streams");
}

TEST(pinned_memory_is_had_again_after_all_registered_streams, .to = 2)
{
        static const struct way way = {"its own stream's", .freed_in = &owner, .had_in = &owner,
                                       .cache_size = "", .service_thread = ""};

        if (!_i || cuda.cuCtxRecordEvent)
                leave_by(&way, GPUMEM_PINNED, _i ? "context" : "streams");
}

/* Where only the own stream counts, memory leaves though the user's stream has not come as far; so it does where the
 * user is not registered. The user writes nothing: that would spoil its context. */
TEST(the_own_stream_alone_is_trusted_where_that_is_said, .to = 2)
{
        void *pointer, *next;

        connect_with("own", "", "");
        if (_i) {
                gpumem_disconnect(client);
                connect_with("streams", "", "");
                ck_assert_int_eq(gpumem_stream_unregister(client, user), 0);
        }
        pointer = must_alloc_in(owner);
        gate_hold(&gate, user);
        free_in(pointer, owner);
        ck_assert_int_eq(try_alloc(client, GPUMEM_DEVICE, third, 0, &next), 0);
        ck_assert_int_eq(cuda.cuStreamQuery(user), CUDA_ERROR_NOT_READY);
}

/* A stream that does not end holds up what leaves, and not what its own stream has again. */
TEST(its_own_stream_has_it_again_at_once)
{
        void *pointer, *again;

        connect_with("streams", "", "");
        pointer = must_alloc_in(owner);
        use_late(GPUMEM_DEVICE, pointer);
        free_in(pointer, owner);
        again = must_alloc_in(owner);
        ck_assert_ptr_eq(again, pointer);
}

static void *small(CUstream stream)
{
        struct gpumem_request request = request_in(stream, GPUMEM_DEVICE, 4096);
        void *pointer;

        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), 0);
        return pointer;
}

/* More is empty than was needed lately, but less than the size: it can wait until the work is over. */
TEST(what_a_cache_has_room_for_is_not_waited_for)
{
        connect_with("streams", "1GiB", "");
        free_in(must_alloc_in(owner), owner);
        gate_hold(&gate, owner);
        for (unsigned i = 0; i < 32 * 128; i++) {
                (void)usleep(i % 128 ? 0 : 10000);
                free_in(small(owner), owner);
        }
        ck_assert_int_eq(cuda.cuStreamQuery(owner), CUDA_ERROR_NOT_READY);
}

/* The round is owed while a registered stream captures, and no capture is harmed; whichever call comes next pays. */
TEST(a_capture_holds_memory_up_and_is_not_harmed, .to = 6)
{
        void *pointer, *keep, *next;

        connect_with("streams", "", _i % 2 ? "0" : "1");
        n_bytes = N_BYTES / 2;
        keep = small(third);
        free_in(small(third), third);
        pointer = must_alloc_in(owner);
        capturer_begin(&capturer, user, capture_modes[_i / 2]);
        DRIVER(cuMemsetD8Async, scratch, 0xbb, 64, user);
        free_in(pointer, owner);
        sleep_ms(20);
        capturer_destroy(&capturer, capturer_end(&capturer, user));
        /* A hit, and a free of a stream that has nothing to do with it. */
        free_in(small(third), third);
        ck_assert_int_eq(gpumem_connect(NULL, &other), 0);
        if (_i % 2)
                next = must_alloc_in(owner);
        else
                next = must_alloc(other, GPUMEM_DEVICE, third, 0);
        ck_assert_ptr_nonnull(next);
        free_in(keep, third);
}

#define N_CAPTURES 400

static _Atomic bool captures_end;

static void *capture_again_and_again(void *unused)
{
        ck_assert_int_eq(gpu_use(gpu), 0);
        for (unsigned i = 0; i < N_CAPTURES; i++) {
                ck_assert_int_eq(gpumem_before_capture(client), 0);
                capturer_begin(&capturer, user,
                               i % 2 ? CU_STREAM_CAPTURE_MODE_GLOBAL
                                     : CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
                DRIVER(cuMemsetD8Async, scratch, 0xbb, 64, user);
                capturer_destroy(&capturer, capturer_end(&capturer, user));
                ck_assert_int_eq(gpumem_after_capture(client), 0);
        }
        atomic_store(&captures_end, true);
        return unused;
}

static void *free_again_and_again(void *stream)
{
        unsigned n = 0;

        ck_assert_int_eq(gpu_use(gpu), 0);
        while (!atomic_load(&captures_end)) {
                struct gpumem_request request = request_in(stream, GPUMEM_DEVICE,
                                                           (1 + n % 16) * MIB);
                void *pointer;

                request.wait_ms = LONG_MS;
                ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), 0);
                if (n++ % 3 == 0)
                        ck_assert_int_eq(gpumem_record_use(client, pointer, third), 0);
                free_in(pointer, stream);
        }
        return NULL;
}

/* Nothing is recorded until the last one has ended. That call lets the memory go. */
TEST(memory_stays_while_captures_are_announced)
{
        struct gpumem_client *later;
        void *pointer, *next;

        connect_with("streams", "", "");
        later = other = connect_client();
        pointer = must_alloc_in(owner);
        ck_assert_int_eq(gpumem_before_capture(client), 0);
        ck_assert_int_eq(gpumem_before_capture(client), 0);
        free_in(pointer, owner);
        sleep_ms(HELD_MS);
        ck_assert_int_eq(gpumem_after_capture(client), 0);
        free_in(must_alloc_in(owner), owner);
        ck_assert_int_eq(refused_without_waiting(later), GPUMEM_E_REFUSED);
        ck_assert_int_eq(gpumem_after_capture(client), 0);
        next = must_alloc(later, GPUMEM_DEVICE, third, 0);
        ck_assert_ptr_nonnull(next);
        ck_assert_int_eq(gpumem_after_capture(client), GPUMEM_E_NO_CAPTURE);
}

/* With a cache size another stream gets it, too, whatever its own does by then. */
TEST(cached_memory_leaves_its_stream_after_an_announced_capture)
{
        void *pointer, *next;

        connect_with("streams", "64MiB", "");
        n_bytes = N_BYTES / 2;
        pointer = must_alloc_in(owner);
        ck_assert_int_eq(gpumem_before_capture(client), 0);
        free_in(pointer, owner);
        ck_assert_int_eq(gpumem_after_capture(client), 0);
        /* What was recorded is over. */
        DRIVER(cuStreamSynchronize, owner);
        DRIVER(cuStreamSynchronize, user);
        DRIVER(cuStreamSynchronize, third);
        gate_hold(&gate, owner);
        next = must_alloc_in(third);
        ck_assert_ptr_eq(next, pointer);
        gate_open(&gate);
}

/* No later call has the stream, so the free marks it. The stream may be gone when the capture has ended. */
TEST(memory_of_an_unregistered_stream_leaves_afterwards)
{
        CUstream gone = new_stream();
        void *pointer, *next;

        connect_with("streams", "", "");
        other = connect_client();
        pointer = must_alloc_in(gone);
        ck_assert_int_eq(gpumem_before_capture(client), 0);
        free_in(pointer, gone);
        DRIVER(cuStreamDestroy, gone);
        ck_assert_int_eq(gpumem_after_capture(client), 0);
        next = must_alloc(other, GPUMEM_DEVICE, third, 0);
        ck_assert_ptr_nonnull(next);
}

static _Atomic bool asking_ends;

static void *ask_again_and_again(void *unused)
{
        struct gpumem_stats stats = {.struct_size = sizeof(stats)};

        while (!atomic_load(&asking_ends))
                (void)gpumem_get_stats(client, GPUMEM_DEVICE, 0, &stats);
        return unused;
}

/* The call that ends the last capture may be the program's last one: it waits for the pool's lock. */
TEST(memory_leaves_though_others_hold_the_locks, .to = 5)
{
        pthread_t asking[3];
        void *pointer, *next;

        connect_with("streams", "", "");
        other = connect_client();
        pointer = must_alloc_in(owner);
        ck_assert_int_eq(gpumem_before_capture(client), 0);
        free_in(pointer, owner);
        asking_ends = false;
        for (unsigned i = 0; i < ARRAY_SIZE(asking); i++)
                ck_assert_int_eq(pthread_create(&asking[i], NULL, ask_again_and_again, NULL), 0);
        ck_assert_int_eq(gpumem_after_capture(client), 0);
        atomic_store(&asking_ends, true);
        for (unsigned i = 0; i < ARRAY_SIZE(asking); i++)
                ck_assert_int_eq(pthread_join(asking[i], NULL), 0);
        next = must_alloc(other, GPUMEM_DEVICE, third, 0);
        ck_assert_ptr_nonnull(next);
}

TEST(a_stream_is_unregistered_while_a_capture_is_announced)
{
        connect_with("streams", "", "");
        ck_assert_int_eq(gpumem_before_capture(client), 0);
        ck_assert_int_eq(gpumem_stream_unregister(client, user), 0);
        ck_assert_int_eq(gpumem_after_capture(client), 0);
}

/* Its own stream, which is registered, is not marked, so the free waits. */
TEST(a_recorded_use_is_waited_for_while_a_capture_is_announced)
{
        pthread_t opener;
        void *pointer;

        connect_with("streams", "", "");
        pointer = must_alloc_in(owner);
        record(pointer);
        use_late(GPUMEM_DEVICE, pointer);
        ck_assert_int_eq(pthread_create(&opener, NULL, open_later, NULL), 0);
        ck_assert_int_eq(gpumem_before_capture(client), 0);
        free_in(pointer, owner);
        ck_assert(atomic_load(&is_open));
        ck_assert_int_eq(gpumem_after_capture(client), 0);
        ck_assert_int_eq(pthread_join(opener, NULL), 0);
}

/* Each capture is announced, since CUDA would end the process; see test_emulator_misuse.c. */
TEST(no_interleaving_ends_a_capture)
{
        pthread_t capture, frees[2];
        CUstream streams[2] = {owner, new_stream()};

        connect_with("streams", "", "");
        ck_assert_int_eq(gpumem_stream_register(client, streams[1]), 0);
        captures_end = false;
        ck_assert_int_eq(pthread_create(&capture, NULL, capture_again_and_again, NULL), 0);
        for (unsigned i = 0; i < 2; i++)
                ck_assert_int_eq(pthread_create(&frees[i], NULL, free_again_and_again, streams[i]),
                                 0);
        ck_assert_int_eq(pthread_join(capture, NULL), 0);
        for (unsigned i = 0; i < 2; i++)
                ck_assert_int_eq(pthread_join(frees[i], NULL), 0);
}

/* The stream captures when the memory is freed that it is recorded for: it is marked later. */
TEST(a_recorded_stream_may_capture_at_the_free)
{
        void *pointer, *next;

        connect_with("streams", "", "");
        pointer = must_alloc_in(owner);
        ck_assert_int_eq(gpumem_record_use(client, pointer, third), 0);
        capturer_begin(&capturer, third, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
        DRIVER(cuMemsetD8Async, scratch, 0xbb, 64, third);
        free_in(pointer, owner);
        sleep_ms(20);
        capturer_destroy(&capturer, capturer_end(&capturer, third));
        next = must_alloc_in(owner);
        ck_assert_ptr_nonnull(next);
}

/* What waits for a round is freed already. */
TEST(a_second_free_is_told_while_the_first_waits, .to = 2)
{
        struct gpumem_info info = {.struct_size = sizeof(info)};
        unsigned char *pointer;

        connect_with("streams", "", "");
        pointer = must_alloc(client, _i ? GPUMEM_PINNED : GPUMEM_DEVICE, owner, 0);
        use_late(_i ? GPUMEM_PINNED : GPUMEM_DEVICE, pointer);
        ck_assert_int_eq(gpumem_free(client, pointer + 512, third), GPUMEM_E_NOT_OURS);
        free_in(pointer, third);
        ck_assert_int_eq(gpumem_free(client, pointer, third), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(gpumem_free(client, pointer, owner), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(gpumem_describe(client, pointer, &info), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(gpumem_record_use(client, pointer, third), GPUMEM_E_NOT_OURS);
        gate_open(&gate);
        DRIVER(cuStreamSynchronize, user);
        ck_assert_ptr_nonnull(must_alloc(client, _i ? GPUMEM_PINNED : GPUMEM_DEVICE, owner, 0));
        ck_assert_int_eq(gpumem_free(client, pointer + 512, third), GPUMEM_E_NOT_OURS);
}

TEST(streams_are_counted)
{
        connect_with("streams", "", "");
        ck_assert_int_eq(gpumem_stream_unregister(client, third), GPUMEM_E_NOT_REGISTERED);
        ck_assert_int_eq(gpumem_stream_register(client, third), 0);
        ck_assert_int_eq(gpumem_stream_register(client, third), 0);
        ck_assert_int_eq(gpumem_stream_unregister(client, third), 0);
        ck_assert_int_eq(gpumem_stream_unregister(client, third), 0);
        ck_assert_int_eq(gpumem_stream_unregister(client, third), GPUMEM_E_NOT_REGISTERED);
        ck_assert_int_eq(gpumem_stream_register(client, NULL), 0);
        ck_assert_int_eq(gpumem_stream_register(client, CU_STREAM_PER_THREAD),
                         GPUMEM_E_UNSUPPORTED);
        ck_assert_int_eq(gpu_use_none(gpu), 0);
        ck_assert_int_eq(gpumem_stream_register(client, NULL), GPUMEM_E_NO_CONTEXT);
        ck_assert_int_eq(gpu_use(gpu), 0);
        ck_assert_int_eq(gpumem_stream_unregister(client, NULL), 0);
        capturer_begin(&capturer, third, CU_STREAM_CAPTURE_MODE_GLOBAL);
        ck_assert_int_eq(gpumem_stream_register(client, third), GPUMEM_E_CAPTURES);
        DRIVER(cuMemsetD8Async, scratch, 0xbb, 64, third);
        capturer_destroy(&capturer, capturer_end(&capturer, third));
}

TESTS_MAIN("fence", .limit_s = 120, .start = start, .stop = stop)
