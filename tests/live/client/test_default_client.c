/* SPDX-License-Identifier: Apache-2.0 */
/* The default client: when it connects, that it stays, and its state in a forked child. Places that a call
 * names and places that it does not; tags and statistics. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/size.h"
#include "driver/cuda.h"
#include "gpumem-adapters.h"
#include "gpumem.h"
#include "tests/demo/gpu.h"
#include "tests/live/support/calls.h"
#include "tests/live/support/capturer.h"
#include "tests/live/support/daemon.h"
#include "tests/live/support/listed.h"
#include "tests/suite.h"

#define N_BYTES MIB

static struct gpu *gpu;

static void start(void)
{
        daemon_start(&gpumemd, "devices=2,bytes=256MiB", NULL);
        ck_assert_int_eq(gpu_new(0, &gpu), 0);
        ck_assert_int_eq(gpu_use(gpu), 0);
}

static void stop(void)
{
        gpu_free(gpu);
        daemon_stop(&gpumemd);
}

static struct gpumem_client *get_default(void)
{
        struct gpumem_client *client;

        ck_assert_int_eq(gpumem_default_client(&client), 0);
        return client;
}

TEST(the_smallest_program_works)
{
        void *pointer, *pinned;

        ck_assert_int_eq(gpumem_malloc(N_BYTES, gpu_stream(gpu), &pointer), 0);
        ck_assert_int_eq(gpu_fill(gpu, pointer, 0x5a, N_BYTES), 0);
        ck_assert_int_eq(gpumem_malloc_pinned(N_BYTES, &pinned), 0);
        memset(pinned, 1, N_BYTES);
        ck_assert_int_eq(gpumem_free(NULL, pointer, gpu_stream(gpu)), 0);
        ck_assert_int_eq(gpumem_free(NULL, pinned, gpu_stream(gpu)), 0);
        ck_assert_str_eq(gpumem_version(), PROJECT_VERSION);
}

/* The first call, and one of a client that is there. */
TEST(pinned_memory_of_the_default_client_is_registered)
{
        void *pinned;

        ck_assert_int_eq(gpumem_register(NULL, &pinned), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(gpu_use_none(gpu), 0);
        ck_assert_int_eq(gpumem_malloc_pinned(N_BYTES, &pinned), 0);
        ck_assert_int_eq(gpu_use(gpu), 0);
        ck_assert_int_eq(gpumem_register(NULL, pinned), 0);
        ck_assert_int_eq(gpumem_free(NULL, pinned, gpu_stream(gpu)), 0);
}

/* A device's default stream is registered while its own context is current, and not another one's in its stead. */
TEST(torch_has_the_default_stream_of_each_device_registered, NEEDS_TWO_DEVICES)
{
        struct gpu *other;
        void *first, *second;

        first = gpumem_torch_alloc(N_BYTES, 1, NULL);
        ck_assert_int_eq(gpu_new(1, &other), 0);
        ck_assert_int_eq(gpu_use(other), 0);
        second = gpumem_torch_alloc(N_BYTES, 1, NULL);
        gpumem_torch_free(first, N_BYTES, 1, NULL);
        gpumem_torch_free(second, N_BYTES, 1, NULL);
        ck_assert_uint_eq(gpumem_adapters_failures(), 0);
        ck_assert_int_eq(gpumem_stream_unregister(NULL, NULL), 0);
        ck_assert_int_eq(gpu_use(gpu), 0);
        ck_assert_int_eq(gpumem_stream_unregister(NULL, NULL), GPUMEM_E_NOT_REGISTERED);
        gpu_free(other);
}

/* While a blocking stream captures, no work can be enqueued in the default stream. */
TEST(torch_loses_no_memory_beside_a_capture)
{
        struct capturer capturer;
        struct cuda cuda;
        CUstream blocking;
        void *plain, *recorded, *refused;
        CUgraph graph;

        load_driver(&cuda);
        DRIVER(cuStreamCreate, &blocking, CU_STREAM_DEFAULT);
        plain = gpumem_torch_alloc(N_BYTES, 0, NULL);
        recorded = gpumem_torch_alloc(N_BYTES, 0, NULL);
        gpumem_torch_record_stream(recorded, gpu_stream(gpu));
        capturer_init(&capturer, &cuda);
        capturer_begin(&capturer, blocking, CU_STREAM_CAPTURE_MODE_RELAXED);
        gpumem_torch_free(plain, N_BYTES, 0, NULL);
        gpumem_torch_free(recorded, N_BYTES, 0, NULL);
        ck_assert_int_eq(gpumem_malloc(N_BYTES, NULL, &refused), -EIO);
        last_refusal_says(NULL, -EIO, "a blocking stream of its context captures");
        graph = capturer_end(&capturer, blocking);
        capturer_destroy(&capturer, graph);
        ck_assert_uint_eq(gpumem_adapters_failures(), 0);
        ck_assert_int_eq(gpumem_flush(NULL, NULL), 0);
        ck_assert_uint_eq(nearest_stats(NULL, GPUMEM_DEVICE).n_allocated_bytes, 0);
}

static int listener;

static void *connect_default(void *unused)
{
        struct gpumem_client *client;

        (void)gpumem_default_client(&client);
        return unused;
}

/* The first use of the library by another thread, which waits for a daemon that does not answer, while this one is about
 * to fork. */
static void use_in_another_thread(void)
{
        struct pollfd poll_fd = {.fd = listener, .events = POLLIN};
        pthread_t thread;

        ck_assert_int_eq(pthread_create(&thread, NULL, connect_default, NULL), 0);
        ck_assert_int_eq(poll(&poll_fd, 1, 10000), 1);
        ck_assert_int_eq(pthread_detach(thread), 0);
}

static int fork_during_the_first_use(void)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        unsigned n_fds;
        pid_t pid;

        (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s.silent",
                       getenv("GPUMEM_SOCKET"));
        listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
        ck_assert_int_eq(listen(listener, 1), 0);
        ck_assert_int_eq(setenv("GPUMEM_SOCKET", address.sun_path, 1), 0);
        ck_assert_int_eq(pthread_atfork(use_in_another_thread, NULL, NULL), 0);
        n_fds = own_fds();
        pid = fork();
        if (pid)
                return pid;
        (void)unlink(address.sun_path);
        alarm(10);
        _exit(own_fds() == n_fds && gpumem_default_client(&(struct gpumem_client *){NULL}) ==
                                            GPUMEM_E_DISCONNECTED
                      ? 0
                      : 1);
}

/* The child has neither the other thread's lock nor its socket. */
TEST(a_fork_beside_the_first_use_leaves_the_child_its_own_client)
{
        child_await(fork_during_the_first_use(), 0);
        (void)close(listener);
}

TEST(null_is_the_default_client_and_it_stays)
{
        struct gpumem_stats stats = {.struct_size = sizeof(stats)};
        struct gpumem_client *client = get_default();
        void *pointer;

        ck_assert_int_eq(gpumem_malloc(N_BYTES, gpu_stream(gpu), &pointer), 0);
        gpumem_disconnect(client);
        ck_assert_ptr_eq(get_default(), client);
        ck_assert_int_eq(gpumem_get_stats(client, GPUMEM_DEVICE, 0, &stats), 0);
        ck_assert_uint_eq(stats.n_requested_bytes, N_BYTES);
        ck_assert_int_eq(gpumem_free(client, pointer, gpu_stream(gpu)), 0);
        ck_assert_int_eq(gpumem_get_stats(NULL, GPUMEM_DEVICE, 0, &stats), 0);
        ck_assert_uint_eq(stats.n_requested_bytes, 0);
}

/* Whether the daemon lists a client of this process by that name. */
static bool is_listed_as(const char *program)
{
        struct listed listed = listed_now(MESSAGE_CLIENTS);
        bool is_there = false;

        for (uint32_t i = 0; i < listed.n_rows; i++)
                is_there = is_there || (listed.clients[i].pid == (uint32_t)getpid() &&
                                        !strcmp(listed.clients[i].program, program));
        listed_free(&listed);
        return is_there;
}

TEST(an_interpreters_client_has_the_scripts_name)
{
        gpumem_set_program("no.py");
        gpumem_set_program("a_script_whose_name_is_longer_than_a_row.py");
        (void)get_default();
        ck_assert(is_listed_as("a_script_whose_name_is_longer_t"));
        gpumem_set_program("later.py");
        (void)get_default();
        ck_assert(!is_listed_as("later.py"));
}

TEST(without_a_name_it_is_the_files)
{
        gpumem_set_program("script.py");
        gpumem_set_program(NULL);
        (void)get_default();
        ck_assert(is_listed_as(program_invocation_short_name));
}

static void *get_in_thread(void *argument)
{
        (void)argument;
        return get_default();
}

TEST(threads_have_one_default_client_together)
{
        pthread_t threads[8];
        void *clients[8];

        for (unsigned i = 0; i < 8; i++)
                ck_assert_int_eq(pthread_create(&threads[i], NULL, get_in_thread, NULL), 0);
        for (unsigned i = 0; i < 8; i++)
                ck_assert_int_eq(pthread_join(threads[i], &clients[i]), 0);
        for (unsigned i = 0; i < 8; i++)
                ck_assert_ptr_eq(clients[i], clients[0]);
}

static int use_in_child(struct gpumem_client *parents)
{
        void *pointer;

        if (gpumem_flush(parents, NULL) != GPUMEM_E_FORKED)
                return 1;
        if (get_default() == parents || gpumem_malloc_pinned(4096, &pointer))
                return 2;
        memset(pointer, 1, 4096);
        return gpumem_free(NULL, pointer, NULL) ? 3 : 0;
}

TEST(a_forked_child_has_its_own)
{
        struct gpumem_client *parents = get_default();
        void *pointer;
        int status;
        pid_t pid;

        ck_assert_int_eq(gpumem_malloc(N_BYTES, gpu_stream(gpu), &pointer), 0);
        pid = fork();
        if (pid == 0)
                _exit(use_in_child(parents));
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
        ck_assert_int_eq(gpumem_free(NULL, pointer, gpu_stream(gpu)), 0);
}

/* Each call tries again and tells why it failed; a later daemon is found. */
TEST(without_a_daemon_every_call_says_so)
{
        struct gpumem_refusal refusal = {.struct_size = sizeof(refusal)};
        void *untouched = &gpu, *pointer = untouched;

        ck_assert_int_eq(setenv("GPUMEM_SOCKET", "/nonexistent/socket", 1), 0);
        ck_assert_int_eq(gpumem_malloc(N_BYTES, NULL, &pointer), GPUMEM_E_DISCONNECTED);
        ck_assert_int_eq(gpumem_free(NULL, &refusal, NULL), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(gpumem_detach(NULL, &refusal, NULL), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(gpumem_detach_sync(NULL, &refusal), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(gpumem_stream_unregister(NULL, NULL), GPUMEM_E_NOT_REGISTERED);
        ck_assert_uint_eq(gpumem_pressure(NULL), 0);
        ck_assert_ptr_eq(pointer, untouched);
        ck_assert_int_eq(gpumem_last_refusal(NULL, &refusal), 0);
        ck_assert_ptr_nonnull(strstr(refusal.text, "/nonexistent/socket"));
        ck_assert_int_eq(setenv("GPUMEM_SOCKET", gpumemd.socket, 1), 0);
        ck_assert_int_eq(gpumem_malloc(N_BYTES, gpu_stream(gpu), &pointer), 0);
        ck_assert_int_eq(gpumem_free(NULL, pointer, gpu_stream(gpu)), 0);
        ck_assert_int_eq(gpumem_last_refusal(NULL, &refusal), GPUMEM_E_NO_REFUSAL);
        ck_assert_int_eq(gpumem_connect_refusal(&refusal), 0);
        ck_assert_ptr_nonnull(strstr(refusal.text, "/nonexistent/socket"));
}

TEST(a_place_is_meant_where_the_flag_says_so, NEEDS_TWO_DEVICES)
{
        static const struct {
                int32_t place;
                uint32_t flags;
                int result;
                const char *text;
        } cases[] = {
                {0, 0, 0, NULL},
                {GPUMEM_NEAREST, 0, 0, NULL},
                {1, 0, GPUMEM_E_BAD_REQUEST,
                 "place is 1; without GPUMEM_AT_PLACE (2) in flags it must be 0"},
                {1, GPUMEM_AT_PLACE, 0, NULL},
                {GPUMEM_NEAREST, GPUMEM_AT_PLACE, 0, NULL},
                {0, GPUMEM_AT_PLACE, GPUMEM_E_WRONG_STREAM, "place is 0"},
                {0, 32, GPUMEM_E_UNSUPPORTED, "flags are 0x20"},
        };
        struct gpumem_refusal refusal = {.struct_size = sizeof(refusal)};
        struct gpumem_info info = {.struct_size = sizeof(info)};
        struct gpu *second;
        void *pointer;

        ck_assert_int_eq(gpu_new(1, &second), 0);
        for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
                struct gpumem_request request = {.struct_size = sizeof(request),
                                                 .kind = GPUMEM_DEVICE,
                                                 .place = cases[i].place,
                                                 .flags = cases[i].flags,
                                                 .stream = gpu_stream(second),
                                                 .n_bytes = N_BYTES};

                ck_assert_int_eq(gpumem_alloc(NULL, &request, &pointer), cases[i].result);
                if (!cases[i].result) {
                        ck_assert_int_eq(gpumem_describe(NULL, pointer, &info), 0);
                        ck_assert_int_eq(info.place, 1);
                        ck_assert_int_eq(gpumem_free(NULL, pointer, gpu_stream(second)), 0);
                        continue;
                }
                ck_assert_int_eq(gpumem_last_refusal(NULL, &refusal), 0);
                ck_assert_msg(strstr(refusal.text, cases[i].text), "%s", refusal.text);
        }
        gpu_free(second);
}

static void *alloc_in_primary(void *argument)
{
        const struct gpumem_request request = {.struct_size = sizeof(request),
                                               .kind = GPUMEM_DEVICE,
                                               .place = 1,
                                               .flags = GPUMEM_AT_PLACE | GPUMEM_PRIMARY,
                                               .n_bytes = N_BYTES};
        struct gpumem_request without = request;
        void *pointer;

        without.flags = GPUMEM_AT_PLACE;
        ck_assert_int_eq(gpumem_alloc(NULL, &without, &pointer), GPUMEM_E_NO_CONTEXT);
        ck_assert_int_eq(gpumem_alloc(NULL, &request, argument), 0);
        ck_assert_int_eq(gpumem_alloc(NULL, &without, &pointer), GPUMEM_E_NO_CONTEXT);
        return NULL;
}

TEST(a_thread_without_a_context_has_the_primary_one, NEEDS_TWO_DEVICES)
{
        struct gpumem_info info = {.struct_size = sizeof(info)};
        void *pointer;
        pthread_t thread;

        ck_assert_int_eq(pthread_create(&thread, NULL, alloc_in_primary, &pointer), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        ck_assert_int_eq(gpumem_describe(NULL, pointer, &info), 0);
        ck_assert_int_eq(info.place, 1);
        ck_assert_int_eq(gpumem_free_in_order(NULL, pointer), 0);
}

TEST(a_device_that_is_not_there_is_refused_by_its_number, NEEDS_EMULATOR)
{
        struct gpumem_request request = {.struct_size = sizeof(request),
                                         .kind = GPUMEM_DEVICE,
                                         .place = 5,
                                         .n_bytes = N_BYTES,
                                         .flags = GPUMEM_AT_PLACE | GPUMEM_PRIMARY};
        struct gpumem_refusal refusal = {.struct_size = sizeof(refusal)};
        void *pointer;

        ck_assert_int_eq(gpumem_alloc(NULL, &request, &pointer), GPUMEM_E_NO_POOL);
        ck_assert_int_eq(gpumem_last_refusal(NULL, &refusal), 0);
        ck_assert_str_eq(refusal.text,
                         "gpumemd has no pool for CUDA device 5; it has pools for 0 and 1");
}

static struct gpumem_tag_stats tag_stats(const char *tag)
{
        struct gpumem_tag_stats stats = {.struct_size = sizeof(stats)};

        ck_assert_int_eq(gpumem_get_tag_stats(NULL, tag, &stats), 0);
        return stats;
}

TEST(allocations_count_under_the_tag_of_their_thread)
{
        struct gpumem_tag_stats stats = {.struct_size = sizeof(stats)};
        char longest[GPUMEM_TAG_BYTES + 1];
        void *first, *second, *third;

        memset(longest, 'x', sizeof(longest) - 1);
        longest[sizeof(longest) - 1] = '\0';
        ck_assert_int_eq(gpumem_get_tag_stats(NULL, "model", &stats), GPUMEM_E_NO_TAG);
        ck_assert_int_eq(gpumem_set_tag(NULL, ""), GPUMEM_E_BAD_REQUEST);
        ck_assert_int_eq(gpumem_set_tag(NULL, longest), GPUMEM_E_BAD_REQUEST);
        ck_assert_int_eq(gpumem_set_tag(NULL, longest + 1), 0);
        ck_assert_int_eq(gpumem_set_tag(NULL, "model"), 0);
        ck_assert_int_eq(gpumem_malloc(3000, gpu_stream(gpu), &first), 0);
        ck_assert_int_eq(gpumem_malloc_pinned(5000, &second), 0);
        ck_assert_int_eq(gpumem_set_tag(NULL, NULL), 0);
        ck_assert_int_eq(gpumem_malloc(7000, gpu_stream(gpu), &third), 0);
        stats = tag_stats("model");
        ck_assert_uint_eq(stats.n_live, 2);
        ck_assert_uint_eq(stats.n_requested_bytes, 8000);
        ck_assert_int_eq(gpumem_free(NULL, first, gpu_stream(gpu)), 0);
        ck_assert_int_eq(gpumem_free(NULL, first, gpu_stream(gpu)), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(gpumem_free_sync(NULL, second), 0);
        ck_assert_int_eq(gpumem_free_sync(NULL, third), 0);
        stats = tag_stats("model");
        ck_assert_uint_eq(stats.n_live, 0);
        ck_assert_uint_eq(stats.n_requested_bytes, 0);
        ck_assert_uint_eq(stats.n_requested_peak_bytes, 8000);
        ck_assert_uint_eq(stats.n_allocations, 2);
        ck_assert_uint_eq(stats.n_frees, 2);
}

static uint64_t figure(const char *name)
{
        const char *names[64];
        uint64_t values[64];
        size_t n;

        ck_assert_int_eq(gpumem_get_figures(NULL, GPUMEM_DEVICE, 0, names, values, 64, &n), 0);
        for (size_t i = 0; i < n; i++) {
                if (strcmp(names[i], name) == 0)
                        return values[i];
        }
        ck_abort_msg("no figure %s", name);
}

/* As PyTorch calls them, on a thread with a context; tests/live/adapters.sh has the others. */
TEST(what_torch_records_is_used)
{
        void *pointer = gpumem_torch_alloc(N_BYTES, 0, gpu_stream(gpu));

        ck_assert_ptr_nonnull(pointer);
        gpumem_torch_record_stream(pointer, NULL);
        gpumem_torch_free(pointer, N_BYTES, 0, gpu_stream(gpu));
        ck_assert_uint_eq(gpumem_adapters_failures(), 0);
        /* A free that waits for the recorded use has not ended the allocation yet. */
        ck_assert_int_eq(gpumem_flush(NULL, NULL), 0);
        gpumem_torch_record_stream(pointer, NULL);
        ck_assert_uint_eq(gpumem_adapters_failures(), 1);
}

static int unregister_default(void)
{
        return gpumem_stream_unregister(NULL, NULL);
}

TEST(torchs_default_stream_is_registered)
{
        void *pointers[2];

        ck_assert_int_eq(gpu_use_none(gpu), 0);
        pointers[0] = gpumem_torch_alloc(N_BYTES, 0, NULL);
        ck_assert_ptr_nonnull(pointers[0]);
        ck_assert_int_eq(gpu_use(gpu), 0);
        ck_assert_int_eq(unregister_default(), GPUMEM_E_NOT_REGISTERED);
        pointers[1] = gpumem_torch_alloc(N_BYTES, 0, gpu_stream(gpu));
        ck_assert_ptr_nonnull(pointers[1]);
        ck_assert_int_eq(unregister_default(), 0);
        ck_assert_int_eq(unregister_default(), GPUMEM_E_NOT_REGISTERED);
        gpumem_torch_free(pointers[0], N_BYTES, 0, NULL);
        gpumem_torch_free(pointers[1], N_BYTES, 0, gpu_stream(gpu));
        ck_assert_uint_eq(gpumem_adapters_failures(), 0);
}

/* A framework's functions, for the default stream of device 0. */
struct adapter {
        void *(*alloc)(void);
        void (*free)(void *pointer);
};

static void *torch_alloc(void)
{
        return gpumem_torch_alloc(N_BYTES, 0, NULL);
}

static void torch_free(void *pointer)
{
        gpumem_torch_free(pointer, N_BYTES, 0, NULL);
}

static void *cupy_alloc(void)
{
        return gpumem_cupy_alloc(NULL, N_BYTES, 0);
}

static void cupy_free(void *pointer)
{
        gpumem_cupy_free(NULL, pointer, 0);
}

/* The adapter has it open, so it has to be closed once more. Then other calls serve the stream. */
static void default_stream_is_open(const struct adapter *adapter)
{
        void *pointer = adapter->alloc();
        struct gpumem_stream *handle;

        ck_assert_ptr_nonnull(pointer);
        ck_assert_int_eq(gpumem_stream_open(NULL, NULL, &handle), 0);
        for (unsigned i = 0; i < 4; i++) {
                adapter->free(pointer);
                ck_assert_int_eq(gpumem_free(NULL, pointer, NULL), GPUMEM_E_NOT_OURS);
                ck_assert_ptr_eq(adapter->alloc(), pointer);
                if (i >= 1)
                        ck_assert_int_eq(gpumem_stream_close(handle), i < 3 ? 0 : GPUMEM_E_CLOSED);
        }
        ck_assert_int_eq(gpu_use_none(gpu), 0);
        adapter->free(pointer);
        ck_assert_int_eq(gpu_use(gpu), 0);
        ck_assert_ptr_eq(adapter->alloc(), pointer);
        adapter->free(pointer);
        ck_assert_uint_eq(gpumem_adapters_failures(), 0);
}

TEST(torchs_default_stream_is_open)
{
        default_stream_is_open(&(const struct adapter){torch_alloc, torch_free});
}

TEST(cupys_default_stream_is_open)
{
        default_stream_is_open(&(const struct adapter){cupy_alloc, cupy_free});
}

static int32_t place_of(const void *pointer)
{
        struct gpumem_info info = {.struct_size = sizeof(info)};

        ck_assert_int_eq(gpumem_describe(NULL, pointer, &info), 0);
        return info.place;
}

/* Both default streams are NULL. */
TEST(each_device_has_a_default_stream, NEEDS_TWO_DEVICES)
{
        void *pointers[2], *again;
        struct gpu *other;

        pointers[0] = cupy_alloc();
        ck_assert_int_eq(gpu_new(1, &other), 0);
        ck_assert_int_eq(gpu_use(other), 0);
        for (int i = 0; i < 3; i++) {
                pointers[1] = gpumem_cupy_alloc(NULL, N_BYTES, 1);
                ck_assert_int_eq(place_of(pointers[1]), 1);
                gpumem_cupy_free(NULL, pointers[0], i % 2); /* device 0's, whatever CuPy says */
                again = cupy_alloc();
                ck_assert_int_eq(place_of(again), 0);
                ck_assert_ptr_eq(again, pointers[0]);
                gpumem_cupy_free(NULL, pointers[1], 1);
        }
        gpumem_cupy_free(NULL, again, 0);
        gpu_free(other);
        ck_assert_int_eq(gpu_use(gpu), 0);
        ck_assert_uint_eq(gpumem_adapters_failures(), 0);
}

TEST(figures_have_names, NEEDS_EMULATOR)
{
        uint64_t n_refusals = figure("refusals"), n_pressures = gpumem_pressure(NULL);
        uint64_t n_available = figure("available_bytes");
        void *pointer, *more;
        size_t n;

        ck_assert_int_eq(gpumem_get_figures(NULL, GPUMEM_DEVICE, 0, NULL, NULL, 0, &n), 0);
        ck_assert_uint_gt(n, 10);
        ck_assert_int_eq(gpumem_malloc(200 * MIB, gpu_stream(gpu), &pointer), 0);
        ck_assert_uint_eq(figure("requested_bytes"), 200 * MIB);
        ck_assert_uint_eq(figure("available_bytes"), n_available - 200 * MIB);
        ck_assert_int_gt(gpumem_malloc(100 * MIB, gpu_stream(gpu), &more), 0);
        ck_assert_uint_eq(figure("refusals"), n_refusals + 1);
        ck_assert_uint_gt(gpumem_pressure(NULL), n_pressures);
        ck_assert_uint_eq(figure("pressures"), gpumem_pressure(NULL));
}

TESTS_MAIN("default_client", .limit_s = 30, .start = start, .stop = stop)
