/* SPDX-License-Identifier: Apache-2.0 */
/* The streams whose work delays freed memory: which they are when a handle means several, in which
 * contexts, and that no stream is used that may be gone. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

#include "client/streams/marks.h"
#include "driver/stream.h"
#include "tests/live/support/capturer.h"
#include "tests/live/support/gate.h"
#include "tests/live/support/world.h"

#define POOL_BYTES (64 * MIB)
#define SMALL      4096
#define HELD_MS    50
#define LONG_MS    20000
#define N_MANY     500
#define N_IN_TURN  24
#define N_ROUNDS   4000
#define N_BEYOND   48 /* of 64 MiB each block has 2 */

#define TEXT_OF(name) #name
#define NAME_OF(call) TEXT_OF(call)

static struct cuda cuda;
static struct gate gate;
static struct capturer capturer;
static struct gpumem_client *client;
static CUcontext contexts[2]; /* of one device */
static CUstream owner, user, third, abroad;
static CUdeviceptr scratch;
static _Atomic bool is_open;

/* What the library asks of the driver for memory that is freed. */
static _Atomic unsigned n_marks, n_polls, n_waits;
static bool marks_fail;
static void *gone; /* no stream is marked that has this handle */

int __real_marks_add(struct marks *marks, const struct cuda *driver,
                     const struct mark_place *place);
int __wrap_marks_add(struct marks *marks, const struct cuda *driver,
                     const struct mark_place *place);
uint64_t __real_marks_poll(struct marks *marks, const struct cuda *driver, uint64_t n_done_rounds);
uint64_t __wrap_marks_poll(struct marks *marks, const struct cuda *driver, uint64_t n_done_rounds);
int __real_stream_synchronize_context(const struct cuda *driver, uint64_t context);
int __wrap_stream_synchronize_context(const struct cuda *driver, uint64_t context);

int __wrap_marks_add(struct marks *marks, const struct cuda *driver, const struct mark_place *place)
{
        atomic_fetch_add(&n_marks, 1);
        ck_assert(!gone || place->stream != gone);
        return marks_fail ? GPUMEM_E_CAPTURES : __real_marks_add(marks, driver, place);
}

uint64_t __wrap_marks_poll(struct marks *marks, const struct cuda *driver, uint64_t n_done_rounds)
{
        atomic_fetch_add(&n_polls, 1);
        return __real_marks_poll(marks, driver, n_done_rounds);
}

int __wrap_stream_synchronize_context(const struct cuda *driver, uint64_t context)
{
        atomic_fetch_add(&n_waits, 1);
        return __real_stream_synchronize_context(driver, context);
}

static void use(unsigned context)
{
        DRIVER(cuCtxSetCurrent, contexts[context]);
}

/* The project itself makes none, and has no such calls in its table. */
static void make_contexts(void)
{
        void *library = dlopen(cuda_library_name(NULL), RTLD_NOW);
        __typeof__(cuCtxCreate) *create;
        CUdevice device;

        ck_assert_ptr_nonnull(library);
        create = (__typeof__(create))dlsym(library, NAME_OF(cuCtxCreate));
        ck_assert_ptr_nonnull(create);
        DRIVER(cuDeviceGet, &device, 0);
        DRIVER(cuDevicePrimaryCtxRetain, &contexts[0], device);
        ck_assert_int_eq(create(&contexts[1], NULL, 0, device), CUDA_SUCCESS);
}

static CUstream new_stream(unsigned flags)
{
        CUstream stream;

        DRIVER(cuStreamCreate, &stream, flags);
        return stream;
}

static void start_with(const char *pinned_backing)
{
        daemon_start(&gpumemd, "devices=1,bytes=256MiB",
                     OPTIONS("--device-bytes", "64MiB", "--pinned-bytes", "64MiB",
                             "--pinned-backing", pinned_backing));
        load_driver(&cuda);
        make_contexts();
        use(1);
        abroad = new_stream(CU_STREAM_NON_BLOCKING);
        use(0);
        owner = new_stream(CU_STREAM_NON_BLOCKING);
        user = new_stream(CU_STREAM_NON_BLOCKING);
        third = new_stream(CU_STREAM_NON_BLOCKING);
        gate_init(&gate, &cuda);
        capturer_init(&capturer, &cuda);
        DRIVER(cuMemAlloc, &scratch, SMALL);
        ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
        ck_assert_int_eq(unsetenv("GPUMEM_FENCE"), 0);
        client = connect_client();
        is_open = marks_fail = false;
        gone = NULL;
}

static void start(void)
{
        start_with("memfd");
}

static void start_vmm(void)
{
        start_with("vmm");
}

static void stop(void)
{
        gate_open(&gate);
        use(0);
        gpumem_disconnect(client);
        DRIVER(cuMemFree, scratch);
        gate_deinit(&gate);
        gpumemd_stop_uncharged();
}

/* Pinned memory is the driver's. */
static const struct test_case of_the_drivers = {"vmm", .limit_s = 60, .start = start_vmm,
                                                .stop = stop};

static int try_alloc(enum gpumem_kind kind, CUstream stream, uint32_t flags, uint64_t n_bytes,
                     uint32_t wait_ms, void **ret_pointer)
{
        struct gpumem_request request = request_in(stream, kind, n_bytes);

        request.flags = flags;
        request.wait_ms = wait_ms;
        return gpumem_alloc(client, &request, ret_pointer);
}

static void *must_alloc(enum gpumem_kind kind, CUstream stream, uint32_t flags, uint64_t n_bytes)
{
        void *pointer;

        ck_assert_int_eq(try_alloc(kind, stream, flags, n_bytes, LONG_MS, &pointer), 0);
        return pointer;
}

static void free_in(void *pointer, CUstream stream)
{
        ck_assert_int_eq(gpumem_free(client, pointer, stream), 0);
}

/* Something small is there in the stream, and freed. */
static void pass(CUstream stream)
{
        free_in(must_alloc(GPUMEM_DEVICE, stream, 0, SMALL), stream);
}

static void begin_capture(CUstream stream)
{
        capturer_begin(&capturer, stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
        DRIVER(cuMemsetD8Async, scratch, 0xbb, 64, stream);
}

static void end_capture(CUstream stream)
{
        capturer_destroy(&capturer, capturer_end(&capturer, stream));
}

static void record_use(const void *pointer, CUstream stream)
{
        ck_assert_int_eq(gpumem_record_use(client, pointer, stream), 0);
}

static void in_a_thread(void *(*run)(void *), void *argument)
{
        pthread_t thread;

        ck_assert_int_eq(pthread_create(&thread, NULL, run, argument), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

static void *open_later(void *unused)
{
        sleep_ms(HELD_MS);
        atomic_store(&is_open, true);
        gate_open(&gate);
        return unused;
}

static void *allocate_abroad(void *unused)
{
        use(1);
        pass(abroad);
        return unused;
}

/* What a default stream is depends on the context, and work there ends captures of blocking streams. */
TEST(a_default_stream_is_marked_where_it_is_one)
{
        CUstream blocking = new_stream(CU_STREAM_DEFAULT);
        void *pointer = must_alloc(GPUMEM_DEVICE, owner, 0, SMALL);

        record_use(pointer, NULL);
        begin_capture(blocking);
        free_in(pointer, owner);
        in_a_thread(allocate_abroad, NULL);
        end_capture(blocking);
}

/* The program may destroy a stream as soon as the free has returned. */
TEST(the_own_stream_is_not_used_after_the_free)
{
        CUstream own = new_stream(CU_STREAM_NON_BLOCKING);
        void *pointer = must_alloc(GPUMEM_DEVICE, own, 0, SMALL);

        record_use(pointer, user);
        marks_fail = true;
        free_in(pointer, own);
        DRIVER(cuStreamDestroy, own);
        marks_fail = false;
        gone = own;
        pass(owner);
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        ck_assert_ptr_nonnull(must_alloc(GPUMEM_DEVICE, owner, 0, POOL_BYTES));
}

/* One handle is another stream in each thread: it could not be marked for another one. */
TEST(no_per_thread_stream_is_recorded)
{
        void *pointer = must_alloc(GPUMEM_DEVICE, owner, 0, SMALL);
        void *own = must_alloc(GPUMEM_DEVICE, CU_STREAM_PER_THREAD, 0, SMALL);

        ck_assert_int_eq(gpumem_record_use(client, pointer, CU_STREAM_PER_THREAD),
                         GPUMEM_E_UNSUPPORTED);
        ck_assert_int_eq(gpumem_record_use(client, own, CU_STREAM_PER_THREAD), 0);
        free_in(pointer, owner);
        free_in(own, CU_STREAM_PER_THREAD);
}

static void *free_in_its_own_stream(void *unused)
{
        use(0);
        pass(CU_STREAM_PER_THREAD);
        return unused;
}

/* What one thread's captured free is not over by is another thread's stream of the same handle. */
TEST(a_per_thread_stream_is_its_threads)
{
        void *pointer = must_alloc(GPUMEM_DEVICE, owner, 0, POOL_BYTES / 2), *next;

        begin_capture(CU_STREAM_PER_THREAD);
        free_in(pointer, CU_STREAM_PER_THREAD);
        in_a_thread(free_in_its_own_stream, NULL);
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        ck_assert_int_ne(try_alloc(GPUMEM_DEVICE, third, 0, POOL_BYTES / 2 + MIB, 0, &next), 0);
        end_capture(CU_STREAM_PER_THREAD);
        (void)free_in_its_own_stream(NULL);
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        ck_assert_ptr_nonnull(must_alloc(GPUMEM_DEVICE, third, 0, POOL_BYTES / 2 + MIB));
}

static CUstream new_abroad(void)
{
        CUstream stream;

        use(1);
        stream = new_stream(CU_STREAM_NON_BLOCKING);
        use(0);
        return stream;
}

/* Streams of both contexts may use it: of the one that it was allocated in, and of the one that it is freed in. */
static void free_abroad(enum gpumem_kind kind, uint32_t flags, void *pointer, CUstream reader)
{
        pthread_t opener;
        void *next;

        ck_assert_int_eq(gpumem_stream_register(client, reader), 0);
        gate_hold(&gate, reader);
        ck_assert_int_eq(pthread_create(&opener, NULL, open_later, NULL), 0);
        free_in(pointer, abroad);
        if (!flags)
                next = must_alloc(kind, owner, 0, POOL_BYTES);
        ck_assert(atomic_load(&is_open));
        ck_assert_int_eq(pthread_join(opener, NULL), 0);
        if (!flags)
                free_in(next, owner);
        ck_assert_int_eq(gpumem_stream_unregister(client, reader), 0);
}

TEST(streams_of_both_contexts_count, .to = 8)
{
        enum gpumem_kind kind = _i & 1 ? GPUMEM_DEVICE : GPUMEM_PINNED;
        uint32_t flags = _i & 2 ? GPUMEM_SHAREABLE : 0;
        void *pointer = must_alloc(kind, owner, flags, POOL_BYTES);

        free_abroad(kind, flags, pointer, _i & 4 ? user : new_abroad());
}

/* What unmaps memory waits for what uses it. */
TEST(attached_memory_is_detached_after_its_uses)
{
        void *pointer = must_alloc(GPUMEM_DEVICE, owner, GPUMEM_SHAREABLE, 2 * MIB), *attached;
        struct gpumem_token token;
        pthread_t opener;
        uint64_t n_bytes;

        ck_assert_int_eq(gpumem_share(client, pointer, NULL, &token), 0);
        ck_assert_int_eq(gpumem_attach(client, &token, &attached, &n_bytes), 0);
        record_use(attached, user);
        gate_hold(&gate, user);
        ck_assert_int_eq(pthread_create(&opener, NULL, open_later, NULL), 0);
        ck_assert_int_eq(gpumem_detach(client, attached, owner), 0);
        ck_assert(atomic_load(&is_open));
        ck_assert_int_eq(pthread_join(opener, NULL), 0);
        free_in(pointer, owner);
}

TEST(memory_of_no_context_is_freed_in_one, .in = &of_the_drivers)
{
        void *pointer;

        DRIVER(cuCtxSetCurrent, NULL);
        pointer = must_alloc(GPUMEM_PINNED, NULL, 0, POOL_BYTES);
        use(0);
        free_abroad(GPUMEM_PINNED, 0, pointer, new_abroad());
}

/* Its neighbour's streams are not its own: it is ordered in its own stream. */
TEST(memory_beside_recorded_memory_is_had_again_at_once)
{
        void *small = must_alloc(GPUMEM_DEVICE, owner, 0, SMALL), *large, *again;

        large = must_alloc(GPUMEM_DEVICE, owner, 0, POOL_BYTES - 4 * MIB);
        record_use(small, user);
        ck_assert_int_eq(gpumem_stream_register(client, user), 0);
        gate_hold(&gate, user);
        free_in(large, owner);
        ck_assert_int_eq(try_alloc(GPUMEM_DEVICE, owner, 0, POOL_BYTES - 4 * MIB, 0, &again), 0);
        ck_assert_ptr_eq(again, large);
}

static void *many[N_MANY];

static void record_many(void)
{
        for (unsigned i = 0; i < N_MANY; i++) {
                many[i] = must_alloc(GPUMEM_DEVICE, owner, 0, SMALL);
                record_use(many[i], user);
        }
}

static void free_many(void)
{
        for (unsigned i = 0; i < N_MANY; i++)
                free_in(many[i], owner);
}

/* The user's stream captures from here on, so that it is not marked at the frees. */
static void free_many_in_a_capture(void)
{
        record_many();
        begin_capture(user);
        free_many();
}

/* As many looks as calls, and not as frees that wait. */
TEST(a_call_while_a_capture_lasts_costs_little)
{
        unsigned n;

        free_many_in_a_capture();
        n = atomic_load(&n_marks);
        for (unsigned i = 0; i < 10; i++)
                pass(third);
        ck_assert_uint_le(atomic_load(&n_marks) - n, 40);
        end_capture(user);
        pass(third);
        ck_assert_uint_ge(atomic_load(&n_marks) - n, N_MANY);
        ck_assert_ptr_nonnull(must_alloc(GPUMEM_DEVICE, third, 0, POOL_BYTES));
}

/* Without a service thread only the test's calls look. */
TEST(a_call_looks_at_few_frees_that_wait)
{
        unsigned n;

        gpumem_disconnect(client);
        ck_assert_int_eq(setenv("GPUMEM_SERVICE_THREAD", "0", 1), 0);
        client = connect_client();
        ck_assert_int_eq(unsetenv("GPUMEM_SERVICE_THREAD"), 0);
        record_many();
        gate_hold(&gate, user);
        free_many();
        n = atomic_load(&n_polls);
        ck_assert_ptr_nonnull(must_alloc(GPUMEM_DEVICE, third, 0, 20 * MIB));
        ck_assert_uint_le(atomic_load(&n_polls) - n, N_MANY / 2);
}

TEST(a_flush_waits_once_for_many_frees)
{
        unsigned n;

        free_many_in_a_capture();
        n = atomic_load(&n_waits);
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        ck_assert_uint_le(atomic_load(&n_waits) - n, 10);
        ck_assert_ptr_nonnull(must_alloc(GPUMEM_DEVICE, third, 0, POOL_BYTES));
        end_capture(user);
}

static void pairs_in_turn(const CUstream *streams, unsigned n_streams, unsigned n_rounds)
{
        for (unsigned i = 0; i < n_rounds * n_streams; i++) {
                CUstream stream = streams[i % n_streams];

                free_in(must_alloc(GPUMEM_DEVICE, stream, 0, SMALL), stream);
        }
}

/* Each free empties the heap of its stream, and the next stream does not take the block. */
TEST(streams_that_take_turns_keep_a_block_each)
{
        CUstream streams[N_IN_TURN];
        uint64_t n_hits;

        for (unsigned i = 0; i < N_IN_TURN; i++)
                streams[i] = new_stream(CU_STREAM_NON_BLOCKING);
        pairs_in_turn(streams, N_IN_TURN, N_ROUNDS / 4);
        n_hits = nearest_stats(client, GPUMEM_DEVICE).n_hits;
        pairs_in_turn(streams, N_IN_TURN, N_ROUNDS);
        ck_assert_uint_ge(nearest_stats(client, GPUMEM_DEVICE).n_hits - n_hits,
                          N_ROUNDS * N_IN_TURN * 8 / 10);
}

/* The pool has fewer blocks than there are streams. They share them, and wait for no work, but where others keep the CPUs
 * from the library's thread. If they waited, each allocation would. */
TEST(streams_beyond_the_pool_share_its_blocks)
{
        CUstream streams[N_BEYOND];
        unsigned n;

        for (unsigned i = 0; i < N_BEYOND; i++)
                streams[i] = new_stream(CU_STREAM_NON_BLOCKING);
        pairs_in_turn(streams, N_BEYOND, 2);
        n = atomic_load(&n_waits);
        pairs_in_turn(streams, N_BEYOND, 200);
        ck_assert_uint_le(atomic_load(&n_waits) - n, 200 * N_BEYOND / 100);
}

TESTS_MAIN("fence_streams", .limit_s = 60, .start = start, .stop = stop)
