/* libgpumem-client as a program uses it, against a daemon of the test's own. After each test the
 * daemon is charged nothing, has nothing reserved after free_all_blocks, and both sides have as many
 * fds open as before. */
#include "gpumem.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/size.h"
#include "driver/vmm.h"
#include "tests/demo/gpu.h"
#include "tests/live/daemon.h"
#include "tests/suite.h"

static struct daemon gpumemd;
static unsigned n_daemon_fds, n_own_fds;
static struct gpu *gpus[2];
static unsigned n_gpus;
static struct gpumem_client *client;

static struct gpumem_request on_device(unsigned device, uint64_t n_bytes)
{
        ck_assert_int_eq(gpu_use(gpus[device]), 0);
        return (struct gpumem_request){.struct_size = sizeof(struct gpumem_request),
                                       .kind = GPUMEM_DEVICE,
                                       .place = (int32_t)device,
                                       .stream = gpu_stream(gpus[device]),
                                       .n_bytes = n_bytes};
}

static struct gpumem_request pinned(uint64_t n_bytes)
{
        struct gpumem_request request = on_device(0, n_bytes);

        request.kind = GPUMEM_PINNED;
        request.place = GPUMEM_NEAREST;
        return request;
}

static unsigned char *must_alloc(const struct gpumem_request *request)
{
        void *pointer;
        int r = gpumem_alloc(client, request, &pointer);

        ck_assert_msg(r == 0, "%s", gpumem_strerror(r));
        return pointer;
}

static void must_free(const struct gpumem_request *request, void *pointer)
{
        int r = gpumem_free(client, pointer, request->stream);

        ck_assert_msg(r == 0, "%s", gpumem_strerror(r));
}

static struct gpumem_stats stats_of(enum gpumem_kind kind, int32_t place)
{
        struct gpumem_stats stats = {.struct_size = sizeof(stats)};

        ck_assert_int_eq(gpumem_get_stats(client, kind, place, &stats), 0);
        return stats;
}

/* Bytes go to the device and come back. */
static void check_device_bytes(unsigned device, unsigned char *pointer, uint64_t n_bytes)
{
        unsigned char *staged;

        ck_assert_int_eq(gpu_use(gpus[device]), 0);
        ck_assert_int_eq(gpu_stage(gpus[device], n_bytes, (void **)&staged), 0);
        memset(staged, (int)((uintptr_t)pointer >> 9), n_bytes);
        ck_assert_int_eq(gpu_copy_to_device(gpus[device], pointer, staged, n_bytes), 0);
        ck_assert_int_eq(gpu_synchronize(gpus[device]), 0);
        memset(staged, 0, n_bytes);
        ck_assert_int_eq(gpu_copy_to_host(gpus[device], staged, pointer, n_bytes), 0);
        ck_assert_int_eq(gpu_synchronize(gpus[device]), 0);
        for (uint64_t i = 0; i < n_bytes; i++)
                ck_assert_uint_eq(staged[i], (unsigned char)((uintptr_t)pointer >> 9));
}

/* Some memory of each kind, given back again: drivers open files of their own at their first work. */
static void do_first_work(void)
{
        struct gpumem_request request = pinned(10000);

        must_free(&request, must_alloc(&request));
        for (unsigned device = 0; device < n_gpus; device++) {
                unsigned char *pointer;

                request = on_device(device, 10000);
                pointer = must_alloc(&request);
                check_device_bytes(device, pointer, request.n_bytes);
                must_free(&request, pointer);
        }
}

static void give_all_back(void)
{
        gpumem_disconnect(client);
        daemon_await(FIGURE_charged, 0);
        daemon_free_all();
        daemon_await(FIGURE_reserved, 0);
}

static void start_on(const char *emulator)
{
        static const char *const options[] = {"--pinned-bytes", "64MiB", "--device-bytes", "256MiB",
                                              NULL};

        n_gpus = machine_n_devices();
        daemon_start(&gpumemd, emulator, options);
        for (unsigned device = 0; device < n_gpus; device++)
                ck_assert_int_eq(gpu_new((int)device, &gpus[device]), 0);
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
        do_first_work();
        give_all_back();
        n_daemon_fds = daemon_quiet_fds(&gpumemd);
        n_own_fds = own_fds();
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
}

static void start(void)
{
        start_on("devices=2,bytes=256MiB");
}

static void start_on_slow_device(void)
{
        start_on("devices=2,bytes=256MiB,copy_delay_us=20000");
}

static void stop(void)
{
        give_all_back();
        ck_assert_uint_eq(daemon_quiet_fds(&gpumemd), n_daemon_fds);
        ck_assert_uint_eq(own_fds(), n_own_fds);
        for (unsigned device = 0; device < n_gpus; device++)
                gpu_free(gpus[device]);
        daemon_stop(&gpumemd);
}

START_TEST(device_memory_holds_bytes_on_each_device)
{
        for (unsigned device = 0; device < n_gpus; device++) {
                struct gpumem_request request = on_device(device, 10000);
                unsigned char *pointer = must_alloc(&request);

                ck_assert_uint_eq((uintptr_t)pointer % 512, 0);
                check_device_bytes(device, pointer, request.n_bytes);
                must_free(&request, pointer);
        }
}
END_TEST

START_TEST(pinned_memory_is_the_cpus_and_the_devices)
{
        struct gpumem_request request = pinned(100000), target = on_device(0, 100000);
        unsigned char *from = must_alloc(&request), *to = must_alloc(&target);

        memset(from, 0x5a, request.n_bytes);
        ck_assert_int_eq(gpu_copy_to_device(gpus[0], to, from, request.n_bytes), 0);
        ck_assert_int_eq(gpu_synchronize(gpus[0]), 0);
        memset(from, 0, request.n_bytes);
        ck_assert_int_eq(gpu_copy_to_host(gpus[0], from, to, request.n_bytes), 0);
        ck_assert_int_eq(gpu_synchronize(gpus[0]), 0);
        for (uint64_t i = 0; i < request.n_bytes; i++)
                ck_assert_uint_eq(from[i], 0x5a);
        must_free(&request, from);
        must_free(&target, to);
}
END_TEST

/* Two allocations in one block: the second is a hit, and one block is leased for both. */
START_TEST(statistics_say_what_is_held)
{
        struct gpumem_request request = on_device(0, 1000);
        unsigned char *one = must_alloc(&request), *two = must_alloc(&request);
        struct gpumem_stats stats = stats_of(GPUMEM_DEVICE, 0);

        ck_assert_uint_eq(stats.n_requested_bytes, 2000);
        ck_assert_uint_eq(stats.n_allocated_bytes, 2048);
        ck_assert_uint_eq(stats.n_reserved_bytes, 2 * MIB);
        ck_assert_uint_eq(stats.n_blocks, 1);
        ck_assert_uint_eq(stats.n_hits, 1);
        ck_assert_uint_eq(stats.n_misses, 1);
        ck_assert_uint_eq(daemon_figure(FIGURE_requested), 2000);
        ck_assert_uint_eq(daemon_figure(FIGURE_allocated), 2048);
        ck_assert_uint_eq(daemon_figure(FIGURE_leased), 2 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_hits), 1);
        must_free(&request, one);
        must_free(&request, two);
        stats = stats_of(GPUMEM_DEVICE, 0);
        ck_assert_uint_eq(stats.n_requested_bytes, 0);
        ck_assert_uint_eq(stats.n_reserved_bytes, 0);
        ck_assert_uint_eq(stats.n_requested_peak_bytes, 2000);
        ck_assert_uint_eq(stats.n_reserved_peak_bytes, 2 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_cached), 2 * MIB);
}
END_TEST

START_TEST(streams_do_not_share_blocks)
{
        struct gpumem_request one = on_device(0, 1000), two = one;

        two.stream = NULL;
        must_free(&one, must_alloc(&one));
        {
                unsigned char *in_one = must_alloc(&one), *in_two = must_alloc(&two);

                ck_assert_uint_ne((uintptr_t)in_one / (2 * MIB), (uintptr_t)in_two / (2 * MIB));
                must_free(&one, in_one);
                must_free(&two, in_two);
        }
}
END_TEST

/* A free in another stream's order, and one in no stream's. */
START_TEST(memory_is_freed_in_any_streams_order)
{
        struct gpumem_request request = on_device(0, 1000);
        unsigned char *pointer = must_alloc(&request);

        ck_assert_int_eq(gpumem_free(client, pointer, NULL), 0);
        pointer = must_alloc(&request);
        ck_assert_int_eq(gpumem_free_sync(client, pointer), 0);
        ck_assert_int_eq(gpumem_free(client, NULL, NULL), 0);
        ck_assert_uint_eq(stats_of(GPUMEM_DEVICE, 0).n_reserved_bytes, 0);
}
END_TEST

/* A copy out of pinned memory is on its way when the memory is freed and had again: what the CPU
 * writes there next must not come before the copy. `other` keeps the block from becoming empty. */
START_TEST(pinned_memory_is_had_again_after_its_copies)
{
        struct gpumem_request request = pinned(64 * KIB), target = on_device(0, 64 * KIB);
        unsigned char *to = must_alloc(&target), *other = must_alloc(&request);
        unsigned char *from = must_alloc(&request), *again;

        memset(from, 1, request.n_bytes);
        ck_assert_int_eq(gpu_copy_to_device(gpus[0], to, from, request.n_bytes), 0);
        must_free(&request, from);
        again = must_alloc(&request);
        ck_assert_ptr_eq(again, from);
        memset(again, 2, request.n_bytes);
        ck_assert_int_eq(gpu_copy_to_host(gpus[0], other, to, request.n_bytes), 0);
        ck_assert_int_eq(gpu_synchronize(gpus[0]), 0);
        for (uint64_t i = 0; i < request.n_bytes; i++)
                ck_assert_uint_eq(other[i], 1);
        must_free(&request, again);
        must_free(&request, other);
        must_free(&target, to);
}
END_TEST

/* Work of another stream still uses device memory that is freed in that stream's order: its
 * allocation stream must not have it before. */
START_TEST(device_memory_is_had_again_after_another_streams_work)
{
        struct gpumem_request request = on_device(0, 64 * KIB), host = pinned(64 * KIB);
        unsigned char *staged = must_alloc(&host), *keeper = must_alloc(&request), *from, *again;

        from = must_alloc(&request);
        memset(staged, 7, host.n_bytes);
        ck_assert_int_eq(gpu_copy_to_device(gpus[0], from, staged, host.n_bytes), 0);
        ck_assert_int_eq(gpu_synchronize(gpus[0]), 0);
        memset(staged, 0, host.n_bytes);
        ck_assert_int_eq(gpu_copy_to_host_by_default(gpus[0], staged, from, host.n_bytes), 0);
        ck_assert_int_eq(gpumem_free(client, from, NULL), 0);
        again = must_alloc(&request);
        ck_assert_ptr_eq(again, from);
        ck_assert_int_eq(gpu_fill(gpus[0], again, 9, host.n_bytes), 0);
        ck_assert_int_eq(gpu_synchronize(gpus[0]), 0);
        for (uint64_t i = 0; i < host.n_bytes; i++)
                ck_assert_uint_eq(staged[i], 7);
        must_free(&request, again);
        must_free(&request, keeper);
        must_free(&host, staged);
}
END_TEST

START_TEST(free_all_blocks_says_how_much)
{
        struct gpumem_request request = on_device(0, 5 * MIB);
        uint64_t n_freed = 1;

        must_free(&request, must_alloc(&request));
        ck_assert_uint_eq(daemon_figure(FIGURE_cached), 6 * MIB);
        ck_assert_int_eq(gpumem_free_all_blocks(client, GPUMEM_SCOPE_TENANT, &n_freed), 0);
        ck_assert_uint_eq(n_freed, 6 * MIB);
        daemon_await(FIGURE_reserved, 0);
        ck_assert_int_eq(gpumem_free_all_blocks(client, GPUMEM_SCOPE_NODE, NULL), 0);
        ck_assert_int_eq(gpumem_free_all_blocks(client, (enum gpumem_scope)7, &n_freed),
                         GPUMEM_E_BAD_REQUEST);
        ck_assert_uint_eq(n_freed, 6 * MIB);
}
END_TEST

/* Each bad request has its own answer, and the pointer is left alone. */
START_TEST(bad_requests_are_told_apart)
{
        struct gpumem_request good = on_device(0, 4096), bad;
        void *untouched = &bad, *pointer = untouched;

#define EXPECT(field, value, code)                                      \
        bad = good;                                                     \
        bad.field = (value);                                            \
        ck_assert_int_eq(gpumem_alloc(client, &bad, &pointer), (code)); \
        ck_assert_ptr_eq(pointer, untouched);
        EXPECT(n_bytes, 0, GPUMEM_E_BAD_REQUEST)
        EXPECT(n_bytes, UINT64_MAX, GPUMEM_E_TOO_LARGE)
        EXPECT(n_bytes, 257 * MIB, GPUMEM_E_TOO_LARGE)
        EXPECT(kind, (enum gpumem_kind)9, GPUMEM_E_BAD_REQUEST)
        EXPECT(place, 1000, GPUMEM_E_NO_POOL)
        EXPECT(flags, 2, GPUMEM_E_UNSUPPORTED)
        EXPECT(struct_size, 0, -EINVAL)
        EXPECT(struct_size, 4, -EINVAL)
#undef EXPECT
        ck_assert_uint_eq(stats_of(GPUMEM_DEVICE, 0).n_reserved_bytes, 0);
}
END_TEST

START_TEST(a_stream_of_another_device_is_told)
{
        struct gpumem_request request = on_device(0, 4096);
        void *pointer = &request;

        request.place = 1;
        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), GPUMEM_E_WRONG_STREAM);
        ck_assert_ptr_eq(pointer, &request);
}
END_TEST

/* A GPU's driver may follow such a handle, wherever it points. */
START_TEST(a_stream_that_is_none_is_told)
{
        struct gpumem_request request = on_device(0, 4096);
        void *pointer = &request;

        request.stream = (void *)0x123456;
        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), -EINVAL);
        ck_assert_ptr_eq(pointer, &request);
}
END_TEST

START_TEST(a_longer_request_of_a_later_version_is_taken_if_zero)
{
        struct {
                struct gpumem_request request;
                uint64_t later;
        } longer = {.request = on_device(0, 4096)};
        void *pointer;

        longer.request.struct_size = sizeof(longer);
        ck_assert_int_eq(gpumem_alloc(client, &longer.request, &pointer), 0);
        must_free(&longer.request, pointer);
        longer.later = 1;
        ck_assert_int_eq(gpumem_alloc(client, &longer.request, &pointer), -E2BIG);
}
END_TEST

START_TEST(what_is_not_allocated_is_not_freed)
{
        struct gpumem_request request = on_device(0, 4096);
        unsigned char *pointer = must_alloc(&request), *other = must_alloc(&request);
        char here;

        ck_assert_int_eq(gpumem_free(client, &here, request.stream), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(gpumem_free(client, pointer + 512, request.stream), GPUMEM_E_NOT_OURS);
        must_free(&request, pointer);
        ck_assert_int_eq(gpumem_free(client, pointer, request.stream), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(gpumem_free_sync(client, pointer), GPUMEM_E_NOT_OURS);
        check_device_bytes(0, other, 4096);
        must_free(&request, other);
        ck_assert_int_eq(gpumem_free(client, other, request.stream), GPUMEM_E_NOT_OURS);
}
END_TEST

START_TEST(without_a_context_there_is_no_device_memory)
{
        struct gpumem_request request = on_device(0, 4096);
        void *pointer;

        request.stream = NULL;
        ck_assert_int_eq(gpu_use_none(gpus[0]), 0);
        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), GPUMEM_E_NO_CONTEXT);
        request.kind = GPUMEM_PINNED;
        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), 0);
        memset(pointer, 1, 4096);
        ck_assert_int_eq(gpumem_free(client, pointer, NULL), 0);
}
END_TEST

/* The pool is full: refused at once, refused after a while, and served when somebody gives back. */
START_TEST(a_full_pool_refuses_in_time)
{
        struct gpumem_request request = on_device(0, 256 * MIB), more = on_device(0, 4096);
        unsigned char *all = must_alloc(&request);
        void *pointer;

        ck_assert_int_eq(gpumem_alloc(client, &more, &pointer), GPUMEM_E_REFUSED);
        more.wait_ms = 30;
        ck_assert_int_eq(gpumem_alloc(client, &more, &pointer), GPUMEM_E_TIMED_OUT);
        must_free(&request, all);
        must_free(&more, must_alloc(&more));
}
END_TEST

struct releaser {
        struct cuda *cuda;
        uint64_t handle;
        int fd;
};

/* Once the request waits, having been tried and refused by the driver. */
static void *release_later(void *argument)
{
        struct releaser *releaser = argument;

        daemon_await(FIGURE_waiting, 1);
        sleep_ms(50);
        closep(&releaser->fd);
        ck_assert_int_eq(vmm_release(releaser->cuda, releaser->handle), 0);
        return NULL;
}

/* The pool has room, but somebody outside of it holds the device's memory, and lets go of it without
 * a word to the daemon. */
START_TEST(a_full_device_is_tried_again)
{
        struct gpumem_request request = on_device(0, 128 * MIB);
        char reason[CUDA_REASON_MAX];
        struct cuda cuda;
        uint64_t handle;
        void *pointer;
        int fd;

        ck_assert_int_eq(cuda_load(NULL, &cuda, reason), 0);
        ck_assert_int_eq(vmm_create(&cuda, 0, 200 * MIB, &handle, &fd), 0);
        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), GPUMEM_E_DEVICE_FULL);
        {
                struct releaser releaser = {&cuda, handle, fd};
                pthread_t thread;

                ck_assert_int_eq(pthread_create(&thread, NULL, release_later, &releaser), 0);
                request.wait_ms = 20000;
                must_free(&request, must_alloc(&request));
                ck_assert_int_eq(pthread_join(thread, NULL), 0);
        }
}
END_TEST

struct giver {
        struct gpumem_request request;
        unsigned char *all;
};

static void *give_later(void *argument)
{
        struct giver *giver = argument;

        ck_assert_int_eq(gpu_use(gpus[0]), 0);
        daemon_await(FIGURE_waiting, 1);
        must_free(&giver->request, giver->all);
        return NULL;
}

/* One thread waits for memory while another gives it back over the same connection. */
START_TEST(a_waiting_thread_holds_no_other_up)
{
        struct giver giver = {.request = on_device(0, 256 * MIB)};
        struct gpumem_request more = on_device(0, 4096);
        pthread_t thread;

        giver.all = must_alloc(&giver.request);
        ck_assert_int_eq(pthread_create(&thread, NULL, give_later, &giver), 0);
        more.wait_ms = 20000;
        must_free(&more, must_alloc(&more));
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

#define THREADS 4
#define ROUNDS  400

static void *churn(void *argument)
{
        unsigned seed = (unsigned)(uintptr_t)argument;
        struct gpumem_request request = on_device(seed % n_gpus, 0);
        unsigned char *held[16] = {NULL};

        for (unsigned round = 0; round < ROUNDS; round++) {
                unsigned slot = (unsigned)rand_r(&seed) % 16;

                if (held[slot])
                        must_free(&request, held[slot]);
                request.n_bytes = 1 + (unsigned)rand_r(&seed) % (MIB / 2);
                held[slot] = must_alloc(&request);
                if (round % 50 == 0) {
                        (void)stats_of(GPUMEM_DEVICE, request.place);
                        ck_assert_int_eq(gpumem_free_all_blocks(client, GPUMEM_SCOPE_TENANT, NULL),
                                         0);
                }
        }
        for (unsigned slot = 0; slot < 16; slot++)
                must_free(&request, held[slot]);
        return NULL;
}

START_TEST(threads_share_a_client)
{
        pthread_t threads[THREADS];

        for (uintptr_t i = 0; i < THREADS; i++)
                ck_assert_int_eq(pthread_create(&threads[i], NULL, churn, (void *)i), 0);
        for (unsigned i = 0; i < THREADS; i++)
                ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        for (unsigned device = 0; device < n_gpus; device++)
                ck_assert_uint_eq(stats_of(GPUMEM_DEVICE, (int32_t)device).n_reserved_bytes, 0);
}
END_TEST

START_TEST(a_forked_child_has_no_client)
{
        struct gpumem_request request = pinned(4096);
        unsigned char *pointer = must_alloc(&request);
        int status;
        pid_t pid = fork();

        if (pid == 0) {
                struct gpumem_stats stats = {.struct_size = sizeof(stats)};
                void *other;

                if (gpumem_alloc(client, &request, &other) != GPUMEM_E_FORKED ||
                    gpumem_free(client, pointer, NULL) != GPUMEM_E_FORKED ||
                    gpumem_get_stats(client, GPUMEM_PINNED, 0, &stats) != GPUMEM_E_FORKED ||
                    gpumem_free_all_blocks(client, GPUMEM_SCOPE_TENANT, NULL) != GPUMEM_E_FORKED)
                        _exit(1);
                gpumem_disconnect(client);
                _exit(0);
        }
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
        pointer[0] = 1;
        must_free(&request, pointer);
}
END_TEST

/* A child that lives on does not hold its parent's charge: its copy of the socket is closed. */
START_TEST(a_forked_child_does_not_hold_the_connection)
{
        pid_t pid = fork();

        if (pid == 0) {
                (void)pause();
                _exit(0);
        }
        gpumem_disconnect(client);
        client = NULL;
        ck_assert_uint_eq(daemon_quiet_fds(&gpumemd), n_daemon_fds);
        ck_assert_int_eq(kill(pid, SIGKILL), 0);
        ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}
END_TEST

START_TEST(texts_are_never_missing)
{
        ck_assert_str_eq(gpumem_strerror(0), "success");
        ck_assert_str_eq(gpumem_strerror(GPUMEM_E_LIMIT),
                         "refused: a limit of the client, tenant or pool would be exceeded");
        ck_assert_str_eq(gpumem_strerror(-ENOMEM), "Cannot allocate memory");
        ck_assert_str_eq(gpumem_strerror(12345), "an unknown result");
        ck_assert_str_eq(gpumem_strerror(-12345), "an unknown result");
        ck_assert_str_eq(gpumem_strerror(INT32_MIN), "an unknown result");
}
END_TEST

/* What is held stays valid and is freed without a daemon; a new block cannot be had. */
START_TEST(allocations_outlive_the_daemon)
{
        struct gpumem_request request = on_device(0, 4096), large = on_device(0, 16 * MIB);
        unsigned char *pointer = must_alloc(&request), *pinned_pointer;
        struct gpumem_request pinned_request = pinned(4096);
        void *other;

        pinned_pointer = must_alloc(&pinned_request);
        daemon_kill(&gpumemd);
        check_device_bytes(0, pointer, 4096);
        memset(pinned_pointer, 3, 4096);
        ck_assert_int_eq(gpumem_alloc(client, &large, &other), GPUMEM_E_DISCONNECTED);
        must_free(&request, pointer);
        must_free(&pinned_request, pinned_pointer);
        ck_assert_uint_eq(stats_of(GPUMEM_DEVICE, 0).n_reserved_bytes, 0);
        gpumem_disconnect(client);
        daemon_clear(&gpumemd);
}
END_TEST

START_TEST(nobody_to_connect_to)
{
        struct gpumem_options options = {.struct_size = sizeof(options),
                                         .socket_path = "/nonexistent/socket"};
        struct gpumem_client *untouched = (void *)&options, *nobody = untouched;
        char longest[200];

        ck_assert_int_eq(gpumem_connect(&options, &nobody), GPUMEM_E_DISCONNECTED);
        memset(longest, 'x', sizeof(longest) - 1);
        longest[sizeof(longest) - 1] = '\0';
        options.socket_path = longest;
        ck_assert_int_eq(gpumem_connect(&options, &nobody), -ENAMETOOLONG);
        options.struct_size = 1;
        ck_assert_int_eq(gpumem_connect(&options, &nobody), -EINVAL);
        ck_assert_ptr_eq(nobody, untouched);
        gpumem_disconnect(NULL);
}
END_TEST

/* What this machine cannot try is left out, and said so. */
static void add_particular(TCase *tests)
{
        if (machine_n_devices() > 1)
                tcase_add_test(tests, a_stream_of_another_device_is_told);
        else
                (void)puts("# left out: a_stream_of_another_device_is_told: one device only");
        if (machine_is_emulated()) {
                tcase_add_test(tests, a_stream_that_is_none_is_told);
                tcase_add_test(tests, a_full_device_is_tried_again);
        } else {
                (void)puts("# left out: a_stream_that_is_none_is_told: the driver may crash");
                (void)puts("# left out: a_full_device_is_tried_again: the device is too large");
                (void)puts("# left out: *_is_had_again_after_*: copies cannot be slowed down");
        }
        (void)fflush(stdout);
}

static void add_served(TCase *tests)
{
        tcase_add_test(tests, device_memory_holds_bytes_on_each_device);
        tcase_add_test(tests, pinned_memory_is_the_cpus_and_the_devices);
        tcase_add_test(tests, statistics_say_what_is_held);
        tcase_add_test(tests, streams_do_not_share_blocks);
        tcase_add_test(tests, memory_is_freed_in_any_streams_order);
        tcase_add_test(tests, free_all_blocks_says_how_much);
        tcase_add_test(tests, bad_requests_are_told_apart);
        tcase_add_test(tests, a_longer_request_of_a_later_version_is_taken_if_zero);
        tcase_add_test(tests, what_is_not_allocated_is_not_freed);
        tcase_add_test(tests, without_a_context_there_is_no_device_memory);
        tcase_add_test(tests, a_full_pool_refuses_in_time);
        tcase_add_test(tests, a_waiting_thread_holds_no_other_up);
        tcase_add_test(tests, threads_share_a_client);
        tcase_add_test(tests, a_forked_child_has_no_client);
        tcase_add_test(tests, a_forked_child_does_not_hold_the_connection);
        tcase_add_test(tests, texts_are_never_missing);
}

int main(void)
{
        Suite *suite = suite_create("client");
        TCase *served = tcase_create("served"), *slow = tcase_create("slow");
        TCase *lost = tcase_create("lost"), *alone = tcase_create("alone");

        tcase_set_timeout(served, 60);
        tcase_set_timeout(lost, 60);
        tcase_add_checked_fixture(served, start, stop);
        add_served(served);
        add_particular(served);
        tcase_set_timeout(slow, 60);
        tcase_add_checked_fixture(slow, start_on_slow_device, stop);
        if (machine_is_emulated()) {
                tcase_add_test(slow, pinned_memory_is_had_again_after_its_copies);
                tcase_add_test(slow, device_memory_is_had_again_after_another_streams_work);
        }
        tcase_add_checked_fixture(lost, start, NULL);
        tcase_add_test(lost, allocations_outlive_the_daemon);
        tcase_add_test(alone, nobody_to_connect_to);
        suite_add_tcase(suite, served);
        suite_add_tcase(suite, slow);
        suite_add_tcase(suite, lost);
        suite_add_tcase(suite, alone);
        return run_suite(suite);
}
