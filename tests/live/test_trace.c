/* SPDX-License-Identifier: Apache-2.0 */
/* GPUMEM_TRACE: programs of several threads and clients are recorded, and what is in the file is what
 * they did. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/size.h"
#include "tests/live/daemon.h"
#include "tests/live/recorded.h"
#include "tests/suite.h"

#define N_THREADS 4
#define N_SHELVES 64
#define N_TURNS   4000

/* Threads put memory on shelves, and free what they find there, which is mostly another's. */
static void *_Atomic shelves[N_SHELVES];

static void *put_and_take(void *argument)
{
        struct gpu *gpu = recorded_gpu();
        unsigned seed = *(const unsigned *)argument;

        for (unsigned i = 0; i < N_TURNS; i++) {
                unsigned shelf = (unsigned)rand_r(&seed) % N_SHELVES;
                void *before;

                before = atomic_exchange(&shelves[shelf], recorded_alloc(gpu, 512 + shelf));
                if (before)
                        MUST(gpumem_free(recorded_client, before, gpu_stream(gpu)) == 0);
        }
        return NULL;
}

static void share_shelves(void)
{
        unsigned seeds[N_THREADS];
        pthread_t threads[N_THREADS];

        recorded_connect();
        for (unsigned i = 0; i < N_THREADS; i++) {
                seeds[i] = i;
                MUST(pthread_create(&threads[i], NULL, put_and_take, &seeds[i]) == 0);
        }
        for (unsigned i = 0; i < N_THREADS; i++)
                MUST(pthread_join(threads[i], NULL) == 0);
}

/* What is on the shelves in the end lives, as nobody frees it. */
static void check_shelves(void)
{
        struct sums sums;

        recorded_run(share_shelves, recorded_path);
        ck_assert_str_eq(recorded_said, "");
        sums = recorded_sums();
        ck_assert_uint_eq(sums.n_allocated, N_THREADS * N_TURNS);
        ck_assert_uint_eq(sums.n_freed, N_THREADS * N_TURNS - N_SHELVES);
        ck_assert_uint_eq(sums.n_live_bytes, N_SHELVES * 512 + N_SHELVES * (N_SHELVES - 1) / 2);
        ck_assert_uint_eq(sums.n_streams, N_THREADS);
}

TEST(threads_and_their_streams_are_recorded)
{
        recorded_name("x.trace");
        check_shelves();
}

TEST(a_name_with_gz_is_compressed)
{
        unsigned char magic[2];
        int fd;

        recorded_name("x.trace.gz");
        recorded_run(recorded_connect, recorded_path);
        fd = open(recorded_path, O_RDONLY | O_CLOEXEC);
        ck_assert_int_eq(read(fd, magic, 2), 2);
        (void)close(fd);
        ck_assert_uint_eq(magic[0], 0x1f);
        ck_assert_uint_eq(magic[1], 0x8b);
        check_shelves();
}

TEST(nothing_is_lost_when_a_program_is_in_a_hurry)
{
        struct sums sums;

        recorded_name("x.trace");
        recorded_run(recorded_hurry, recorded_path);
        sums = recorded_sums();
        ck_assert_uint_eq(sums.n_allocated, HURRY_PAIRS);
        ck_assert_uint_eq(sums.n_freed, HURRY_PAIRS);
        ck_assert_uint_eq(sums.n_live_bytes, 0);
}

/* Failed calls are not recorded; a client's end frees what it has; the file can be read by then. */
static void use_two_clients(void)
{
        struct gpu *gpu = recorded_gpu();
        struct gpumem_client *first;
        struct gpumem_request request = recorded_request(UINT64_C(1) << 50, gpu);
        struct sums sums;
        void *pointer;

        recorded_connect();
        first = recorded_client;
        MUST(gpumem_alloc(recorded_client, &request, &pointer) != 0);
        request = recorded_request(1000, gpu);
        request.flags = GPUMEM_SHAREABLE;
        MUST(gpumem_alloc(recorded_client, &request, &pointer) == 0);
        MUST(gpumem_free(recorded_client, (char *)pointer + 1, gpu_stream(gpu)) != 0);
        MUST(gpumem_free(recorded_client, NULL, gpu_stream(gpu)) == 0);
        MUST(gpumem_free(recorded_client, pointer, gpu_stream(gpu)) == 0);
        (void)recorded_alloc(gpu, 2000);
        recorded_connect();
        (void)recorded_alloc(gpu, 3000);
        gpumem_disconnect(first);
        sums = recorded_sums();
        MUST(sums.n_allocated == 3 && sums.n_freed == 2 && sums.n_live_bytes == 3000);
        gpumem_disconnect(recorded_client);
}

TEST(clients_of_a_process_share_a_file)
{
        recorded_name("x.trace");
        recorded_run(use_two_clients, recorded_path);
        recorded_name("x.trace.gz");
        recorded_run(use_two_clients, recorded_path);
}

static void use_pinned(void)
{
        struct gpu *gpu = recorded_gpu();
        struct gpumem_request request = recorded_request(5000, gpu);
        void *pointer;

        recorded_connect();
        request.kind = GPUMEM_PINNED;
        MUST(gpumem_alloc(recorded_client, &request, &pointer) == 0);
        (void)recorded_alloc(gpu, 7000);
}

TEST(pinned_memory_has_a_file_of_its_own)
{
        struct sums sums;

        recorded_name("x.trace");
        recorded_run(use_pinned, recorded_path);
        sums = recorded_sums();
        ck_assert_uint_eq(sums.n_allocated, 1);
        ck_assert_uint_eq(sums.n_live_bytes, 7000);
        recorded_name("x.trace.pinned");
        sums = recorded_sums();
        ck_assert_uint_eq(sums.n_allocated, 1);
        ck_assert_uint_eq(sums.n_live_bytes, 5000);
}

/* A client of its own, beside the parent's. It ends as programs do, with the library's destructors. */
static void be_a_child(void)
{
        const struct gpumem_options options = {.struct_size = sizeof(options),
                                               .cuda_library = "/none"};
        const struct gpumem_request request = {.struct_size = sizeof(request),
                                               .kind = GPUMEM_PINNED,
                                               .place = GPUMEM_NEAREST,
                                               .n_bytes = 3000};
        unsigned n_fds = own_fds();
        struct gpumem_client *client;
        void *pointer;

        MUST(gpumem_connect(&options, &client) == 0);
        MUST(gpumem_alloc(client, &request, &pointer) == 0);
        gpumem_disconnect(client);
        MUST(own_fds() == n_fds);
#if defined(__SANITIZE_ADDRESS__)
        /* Its search for leaks would wait for ever for what another thread had locked at the fork. */
        _exit(0);
#endif
        exit(0);
}

static void fork_in_between(void)
{
        struct gpu *gpu = recorded_gpu();
        void *pointer;
        int status;
        pid_t pid;

        recorded_connect();
        pointer = recorded_alloc(gpu, 1000);
        pid = fork();
        MUST(pid >= 0);
        if (pid == 0)
                be_a_child();
        MUST(waitpid(pid, &status, 0) == pid && status == 0);
        MUST(gpumem_free(recorded_client, pointer, gpu_stream(gpu)) == 0);
        (void)recorded_alloc(gpu, 2000);
}

TEST(a_forked_child_writes_nothing)
{
        struct sums sums;

        recorded_name("x.trace");
        recorded_run(fork_in_between, recorded_path);
        sums = recorded_sums();
        ck_assert_uint_eq(sums.n_allocated, 2);
        ck_assert_uint_eq(sums.n_freed, 1);
        ck_assert_uint_eq(sums.n_live_bytes, 2000);
        recorded_name("x.trace.pinned");
        ck_assert_int_ne(access(recorded_path, F_OK), 0);
}

TESTS_MAIN("trace", .limit_s = 120, .start = recorded_start, .stop = recorded_stop)
