/* SPDX-License-Identifier: Apache-2.0 */
/* A gpumemd whose pools have CUDA IPC handles: it refuses what such blocks cannot do, and every user except
 * the one that it serves. And which requests it serves when the memory is too little. */
#include <dlfcn.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/fdset.h"
#include "proto/address.h"
#include "proto/frame_socket.h"
#include "tests/live/support/gate.h"
#include "tests/live/support/world.h"
#include "tests/live/worlds/legacy_world.h"
#include "tests/random.h"

#define STRANGER 65533

/* With the version that <cuda.h> gives it. */
#define TEXT_OF(name) #name
#define NAME_OF(call) TEXT_OF(call)

static struct gpumem_client *client;
static struct gpu *gpus[2];
static unsigned n_gpus;

static void start_for(unsigned uid)
{
        legacy_start(&gpumemd, "devices=2,bytes=512MiB", uid);
        n_gpus = machine_n_devices();
        for (unsigned i = 0; i < n_gpus; i++)
                ck_assert_int_eq(gpu_new((int)i, &gpus[i]), 0);
        ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
        /* It must not ask the driver about a context that a test is ending. */
        ck_assert_int_eq(setenv("GPUMEM_SERVICE_THREAD", "0", 1), 0);
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
}

static void start(void)
{
        start_for(geteuid());
}

static void start_for_a_stranger(void)
{
        start_for(STRANGER);
}

static void stop(void)
{
        gpumem_disconnect(client);
        for (unsigned i = 0; i < n_gpus; i++)
                gpu_free(gpus[i]);
        gpumemd_stop_uncharged();
}

static const struct test_case others = {"others", .limit_s = 120, .start = start_for_a_stranger,
                                        .stop = stop};

static int try_alloc(enum gpumem_kind kind, uint32_t flags)
{
        struct gpumem_request request = {.struct_size = sizeof(request),
                                         .kind = kind,
                                         .place = kind == GPUMEM_PINNED ? GPUMEM_NEAREST : 0,
                                         .n_bytes = 4 * MIB,
                                         .flags = flags | GPUMEM_AT_PLACE};
        void *pointer;
        int r = gpumem_alloc(client, &request, &pointer);

        return r ? r : gpumem_free_sync(client, pointer);
}

TEST(it_cannot_be_shared)
{
        ck_assert_int_eq(gpu_use(gpus[0]), 0);
        ck_assert_int_eq(try_alloc(GPUMEM_DEVICE, GPUMEM_SHAREABLE), GPUMEM_E_UNSUPPORTED);
        ck_assert_int_eq(try_alloc(GPUMEM_DEVICE, 0), 0);
}

TEST(it_cannot_be_registered)
{
        static const uint32_t flags[] = {GPUMEM_REGISTERED, GPUMEM_RDMA};

        ck_assert_int_eq(gpu_use(gpus[0]), 0);
        for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
                ck_assert_int_eq(try_alloc(GPUMEM_DEVICE, flags[i]), GPUMEM_E_UNSUPPORTED);
                must_contain(refusal_of(client).text, "cuMemAlloc");
        }
        ck_assert_int_eq(try_alloc(GPUMEM_PINNED, GPUMEM_REGISTERED), 0);
        ck_assert_int_eq(try_alloc(GPUMEM_DEVICE, 0), 0);
}

/* Also of devices that could. */
TEST(another_device_does_not_reach_it, NEEDS_TWO_DEVICES)
{
        ck_assert_int_eq(gpumem_enable_peer(client, 0, 1), GPUMEM_E_UNSUPPORTED);
        must_contain(refusal_of(client).text, "CUDA IPC handles");
}

TEST(it_needs_a_context_of_its_device)
{
        ck_assert_int_eq(gpu_use_none(gpus[0]), 0);
        ck_assert_int_eq(try_alloc(GPUMEM_DEVICE, 0), GPUMEM_E_NO_CONTEXT);
        if (n_gpus > 1) {
                ck_assert_int_eq(gpu_use(gpus[1]), 0);
                ck_assert_int_ne(try_alloc(GPUMEM_DEVICE, 0), 0);
        }
        ck_assert_uint_eq(daemon_figure(FIGURE_creates), 0);
        ck_assert_int_eq(gpu_use(gpus[0]), 0);
        ck_assert_int_eq(try_alloc(GPUMEM_DEVICE, 0), 0);
}

/* As after cudaDeviceReset: the next context has the same handle. */
static void renew_context(void)
{
        gpus[0] = gpu_free(gpus[0]);
        ck_assert_int_eq(gpu_new(0, &gpus[0]), 0);
        ck_assert_int_eq(gpu_use(gpus[0]), 0);
}

static void *alloc_in(void *stream, uint64_t n_bytes)
{
        struct gpumem_request request = request_in(stream, GPUMEM_DEVICE, n_bytes);
        void *pointer;

        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), 0);
        return pointer;
}

static void check_usable(struct gpu *gpu, void *pointer, uint64_t n_bytes)
{
        unsigned char *staged;

        ck_assert_int_eq(gpu_fill(gpu, pointer, 0x5a, n_bytes), 0);
        ck_assert_int_eq(gpu_stage(gpu, 1, (void **)&staged), 0);
        ck_assert_int_eq(gpu_copy_to_host(gpu, staged, (char *)pointer + n_bytes - 1, 1), 0);
        ck_assert_int_eq(gpu_synchronize(gpu), 0);
        ck_assert_uint_eq(*staged, 0x5a);
}

/* A default stream is the same to look at in both contexts. */
static void *stream_of_kind(int kind)
{
        return kind % 2 ? gpu_stream(gpus[0]) : NULL;
}

/* Empty blocks of the heap, and then the part of a block that is not allocated. The program may have freed nothing. */
TEST(a_context_takes_its_blocks_with_it, .to = 4, NEEDS_EMULATOR)
{
        void *pointer;

        ck_assert_int_eq(gpu_use(gpus[0]), 0);
        for (unsigned i = 0; i < 3; i++) {
                pointer = alloc_in(stream_of_kind(_i), 4 * MIB);
                check_usable(gpus[0], pointer, 4 * MIB);
                if (_i < 2)
                        ck_assert_int_eq(gpumem_free(client, pointer, stream_of_kind(_i)), 0);
                renew_context();
        }
        pointer = alloc_in(stream_of_kind(_i), 4 * MIB);
        check_usable(gpus[0], pointer, 4 * MIB);
        ck_assert_uint_eq(nearest_stats(client, GPUMEM_DEVICE).n_blocks, 1);
        ck_assert_uint_eq(nearest_stats(client, GPUMEM_DEVICE).n_allocated_bytes, 4 * MIB);
        ck_assert_int_eq(gpumem_free(client, pointer, stream_of_kind(_i)), 0);
        ck_assert_uint_eq(nearest_stats(client, GPUMEM_DEVICE).n_allocated_bytes, 0);
}

/* The same by the handle of a stream, whose heap is known without a question to the driver. */
TEST(a_handle_does_not_lead_to_blocks_of_an_ended_context, NEEDS_EMULATOR)
{
        struct gpumem_stream *handle;
        void *pointer;

        ck_assert_int_eq(gpu_use(gpus[0]), 0);
        ck_assert_int_eq(gpumem_stream_open(client, NULL, &handle), 0);
        for (unsigned i = 0; i < 3; i++) {
                ck_assert_int_eq(gpumem_stream_alloc(handle, 4 * MIB, &pointer), 0);
                check_usable(gpus[0], pointer, 4 * MIB);
                ck_assert_int_eq(gpumem_stream_free(handle, pointer), 0);
                renew_context();
        }
        ck_assert_int_eq(gpumem_stream_close(handle), 0);
}

/* Idle blocks are for all streams of their context, and of no other. */
TEST(idle_blocks_of_an_ended_context_are_given_back, .to = 2, NEEDS_EMULATOR)
{
        void *pointer;

        gpumem_disconnect(client);
        ck_assert_int_eq(unsetenv("GPUMEM_SERVICE_THREAD"), 0);
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
        ck_assert_int_eq(gpu_use(gpus[0]), 0);
        pointer = alloc_in(gpu_stream(gpus[0]), 40 * MIB);
        ck_assert_int_eq(gpumem_free(client, pointer, gpu_stream(gpus[0])), 0);
        ck_assert_int_eq(gpu_synchronize(gpus[0]), 0);
        while (!nearest_stats(client, GPUMEM_DEVICE).n_cached_bytes)
                sleep_ms(1);
        if (_i)
                renew_context();
        pointer = alloc_in(NULL, 40 * MIB);
        check_usable(gpus[0], pointer, 40 * MIB);
        ck_assert_uint_eq(nearest_stats(client, GPUMEM_DEVICE).n_blocks, 1);
}

/* Of the device's second context, which the program makes. */
static struct cuda cuda;
static CUcontext second;
static CUstream second_stream;

static void *find_call(const char *name)
{
        void *call = dlsym(dlopen(cuda_library_name(NULL), RTLD_NOW), name);

        ck_assert_ptr_nonnull(call);
        return call;
}

static void make_second(void)
{
        __typeof__(cuCtxCreate) *create = (__typeof__(create))find_call(NAME_OF(cuCtxCreate));
        CUdevice device;

        load_driver(&cuda);
        DRIVER(cuDeviceGet, &device, 0);
        ck_assert_int_eq(create(&second, NULL, 0, device), CUDA_SUCCESS);
        DRIVER(cuStreamCreate, &second_stream, CU_STREAM_NON_BLOCKING);
}

static void check_usable_in_second(void *pointer, uint64_t n_bytes)
{
        DRIVER(cuCtxSetCurrent, second);
        DRIVER(cuMemsetD8Async, (CUdeviceptr)(uintptr_t)pointer, 0x5a, n_bytes, second_stream);
        DRIVER(cuStreamSynchronize, second_stream);
}

/* Whichever is current when memory is allocated, and though the first one's blocks are empty. */
TEST(a_stream_has_blocks_of_its_own_context, .to = 2, NEEDS_EMULATOR)
{
        void *first, *pointer;

        ck_assert_int_eq(gpu_use(gpus[0]), 0);
        first = alloc_in(gpu_stream(gpus[0]), 4 * MIB);
        ck_assert_int_eq(gpumem_free(client, first, gpu_stream(gpus[0])), 0);
        make_second();
        if (_i)
                ck_assert_int_eq(gpu_use(gpus[0]), 0);
        pointer = alloc_in(second_stream, 4 * MIB);
        ck_assert_ptr_ne(pointer, first);
        gpus[0] = gpu_free(gpus[0]);
        check_usable_in_second(pointer, 4 * MIB);
        ck_assert_int_eq(gpumem_free(client, pointer, second_stream), 0);
}

static void *open_later(void *gate)
{
        sleep_ms(50);
        gate_open(gate);
        return NULL;
}

/* Its address may be another allocation's when the free is made. */
TEST(a_deferred_free_ends_nothing_of_the_next_context, NEEDS_EMULATOR)
{
        void *pointers[2], *kept;
        pthread_t opener;
        struct gate gate;

        make_second();
        gate_init(&gate, &cuda);
        ck_assert_int_eq(gpu_use(gpus[0]), 0);
        kept = alloc_in(NULL, 4 * MIB);
        DRIVER(cuCtxSetCurrent, second);
        gate_hold(&gate, second_stream);
        ck_assert_int_eq(gpumem_record_use(client, kept, second_stream), 0);
        ck_assert_int_eq(gpu_use(gpus[0]), 0);
        ck_assert_int_eq(gpumem_free(client, kept, NULL), 0);
        renew_context();
        ck_assert_int_eq(pthread_create(&opener, NULL, open_later, &gate), 0);
        for (unsigned i = 0; i < ARRAY_SIZE(pointers); i++) {
                pointers[i] = alloc_in(NULL, 4 * MIB);
                check_usable(gpus[0], pointers[i], 4 * MIB);
        }
        ck_assert_int_eq(pthread_join(opener, NULL), 0);
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        ck_assert_uint_eq(nearest_stats(client, GPUMEM_DEVICE).n_live, ARRAY_SIZE(pointers));
        for (unsigned i = 0; i < ARRAY_SIZE(pointers); i++)
                ck_assert_int_eq(gpumem_free(client, pointers[i], NULL), 0);
        DRIVER(cuCtxSetCurrent, second);
        gate_deinit(&gate);
}

/* What was used and not freed stays, and may be in the way of others. The call returns. */
TEST(heaps_with_recorded_uses_are_set_apart_once, NEEDS_EMULATOR)
{
        struct gpumem_request request = request_in(NULL, GPUMEM_DEVICE, 16 * MIB);
        void *kept[2], *pointer;
        CUstream streams[2];

        load_driver(&cuda);
        ck_assert_int_eq(gpu_use(gpus[0]), 0);
        for (unsigned i = 0; i < ARRAY_SIZE(kept); i++)
                DRIVER(cuStreamCreate, &streams[i], CU_STREAM_NON_BLOCKING);
        for (unsigned i = 0; i < ARRAY_SIZE(kept); i++) {
                kept[i] = alloc_in(streams[i], 4 * MIB);
                ck_assert_int_eq(gpumem_record_use(client, kept[i], streams[1 - i]), 0);
        }
        renew_context();
        if (gpumem_alloc(client, &request, &pointer) == 0) {
                check_usable(gpus[0], pointer, 16 * MIB);
                ck_assert_int_eq(gpumem_free(client, pointer, NULL), 0);
        }
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
}

static int connect_raw(void)
{
        struct sockaddr_un address;
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

        ck_assert_int_eq(address_to_connect(gpumemd.socket, &address), 0);
        ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        return fd;
}

static struct frame call(int fd, struct frame *request, enum message_kind kind)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct proto_reason reason;
        struct frame reply;

        proto_seal(request, kind, 1, 0);
        ck_assert_int_eq(frame_socket_send(fd, request, NULL), 0);
        ck_assert_int_eq(frame_socket_receive(fd, FROM_DAEMON, &reply, &fds, &reason), 0);
        return reply;
}

static struct frame say_hello(int fd, uint64_t features)
{
        struct frame hello = {.hello = {PROTO_MAGIC, PROTO_VERSION, .features = features}};

        return call(fd, &hello, MESSAGE_HELLO);
}

TEST(a_client_that_does_not_know_it_is_told)
{
        struct frame lease = {.lease = {.n_bytes = 4 * MIB}}, reply;
        int fd = connect_raw();

        ck_assert_uint_eq(say_hello(fd, PROTO_FEATURE_REFUSED).kind, MESSAGE_WELCOME);
        reply = call(fd, &lease, MESSAGE_LEASE);
        ck_assert_uint_eq(reply.kind, MESSAGE_ERROR);
        ck_assert_int_eq(reply.error.code, GPUMEM_E_UNSUPPORTED);
        must_contain(reply.error.text, "CUDA IPC");
        closep(&fd);
}

/* Administrators connect; only the user has memory of the daemon, of any pool. */
TEST(who_is_not_the_user_gets_nothing, .in = &others)
{
        ck_assert_int_eq(gpu_use(gpus[0]), 0);
        ck_assert_int_eq(try_alloc(GPUMEM_DEVICE, 0), GPUMEM_E_DENIED);
        ck_assert_int_eq(try_alloc(GPUMEM_PINNED, 0), GPUMEM_E_DENIED);
        ck_assert_uint_eq(daemon_figure(FIGURE_creates), 0);
}

static void be_turned_away(const void *unused)
{
        struct frame reply = say_hello(connect_raw(), PROTO_FEATURES);

        (void)unused;
        ck_assert_uint_eq(reply.kind, MESSAGE_ERROR);
        ck_assert_int_eq(reply.error.code, GPUMEM_E_DENIED);
}

/* Started by root only. */
TEST(who_is_neither_user_nor_administrator_is_turned_away, NEEDS_ROOT)
{
        daemon_admit_all(&gpumemd);
        as_user(STRANGER, be_turned_away, NULL);
}

#define N_PROCESSES 3
#define N_THREADS   2

/* Unless GPUMEM_TEST_STEPS says otherwise. */
#if defined(__SANITIZE_THREAD__)
#define N_STEPS 100
#else
#define N_STEPS 400
#endif

/* Two of the largest are all that there is room for. */
#define UNIT    (20 * MIB)
#define N_SIZES 5
#define LONG_MS 60000

#define IDLE_PART 4
#define IDLE_MS   3

struct actor {
        pthread_t thread;
        struct test_random random;
        uint64_t n_steps;
        unsigned char byte;
};

static void check_byte(struct gpu *gpu, const unsigned char *at, unsigned char byte)
{
        unsigned char *staged;

        ck_assert_int_eq(gpu_stage(gpu, 1, (void **)&staged), 0);
        ck_assert_int_eq(gpu_copy_to_host(gpu, staged, at, 1), 0);
        ck_assert_int_eq(gpu_synchronize(gpu), 0);
        ck_assert_uint_eq(*staged, byte);
}

static void take_step(struct actor *actor, struct gpu *gpu)
{
        uint64_t n_bytes = UNIT * (1 + test_random_next(&actor->random) % N_SIZES);
        struct gpumem_request request = request_in(gpu_stream(gpu), GPUMEM_DEVICE, n_bytes);
        unsigned char *first, *last;
        void *pointer;

        request.wait_ms = LONG_MS;
        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), 0);
        first = pointer;
        last = first + n_bytes - 1;
        ck_assert_int_eq(gpu_fill(gpu, first, actor->byte, 1), 0);
        ck_assert_int_eq(gpu_fill(gpu, last, actor->byte, 1), 0);
        ck_assert_int_eq(gpu_restart(gpu), 0);
        check_byte(gpu, first, actor->byte);
        check_byte(gpu, last, actor->byte);
        ck_assert_int_eq(gpumem_free(client, pointer, gpu_stream(gpu)), 0);
        /* Now and then what it does not use is seen to be idle, and is another's. */
        sleep_ms(test_random_next(&actor->random) % IDLE_PART ? 0 : IDLE_MS);
}

static void *act(void *argument)
{
        struct actor *actor = argument;
        struct gpu *gpu = use_gpu();

        for (uint64_t i = 0; i < actor->n_steps; i++)
                take_step(actor, gpu);
        gpu_free(gpu);
        return NULL;
}

static void run_process(unsigned index, uint64_t seed, uint64_t n_steps)
{
        struct actor actors[N_THREADS];

        client = connect_client();
        for (unsigned i = 0; i < N_THREADS; i++) {
                unsigned number = index * N_THREADS + i + 1;

                actors[i] = (struct actor){.random = {.state = seed + number},
                                           .n_steps = n_steps,
                                           .byte = (unsigned char)number};
                ck_assert_int_eq(pthread_create(&actors[i].thread, NULL, act, &actors[i]), 0);
        }
        for (unsigned i = 0; i < N_THREADS; i++)
                ck_assert_int_eq(pthread_join(actors[i].thread, NULL), 0);
        gpumem_disconnect(client);
}

static const struct test_case storm = {"storm", .limit_s = 280, .stop = gpumemd_stop_empty};

/* Several processes of two threads each want more blocks than there are: blocks are taken, and come back while they
 * are open. No call fails. */
TEST(nobody_is_refused_or_finds_anothers_bytes, .in = &storm)
{
        struct test_random random = test_random_begin();
        uint64_t n_steps = test_number_from_environment("GPUMEM_TEST_STEPS", N_STEPS);
        pid_t pids[N_PROCESSES];

        legacy_start(&gpumemd, "devices=1,bytes=512MiB", geteuid());
        ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
        for (unsigned i = 0; i < N_PROCESSES; i++) {
                pids[i] = fork();
                ck_assert_int_ge(pids[i], 0);
                if (pids[i] == 0) {
                        run_process(i, random.state, n_steps);
                        _exit(EXIT_SUCCESS);
                }
        }
        for (unsigned i = 0; i < N_PROCESSES; i++)
                child_await(pids[i], 0);
}

TESTS_MAIN("ours", .limit_s = 120, .start = start, .stop = stop)
