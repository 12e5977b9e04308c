/* SPDX-License-Identifier: Apache-2.0 */
/* GPUMEM_TRACE: programs with several threads and clients are recorded, and the file shows what they did.
 * If a program cannot be recorded, it is told why, and goes on. */
#include <fcntl.h>
#include <libgen.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "tests/live/support/world.h"
#include "tests/live/trace/recorded.h"

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

static void record_as(const char *name, void (*program)(void))
{
        recorded_name(name);
        recorded_run(program, recorded_path);
}

/* What is in the file; the number of its streams. */
static uint32_t check_sums(size_t n_allocated, size_t n_freed, uint64_t n_live_bytes)
{
        struct sums sums = recorded_sums();

        ck_assert_uint_eq(sums.n_allocated, n_allocated);
        ck_assert_uint_eq(sums.n_freed, n_freed);
        ck_assert_uint_eq(sums.n_live_bytes, n_live_bytes);
        return sums.n_streams;
}

/* Allocations on the shelves at the end are alive, since no line frees them. */
static void check_shelves(void)
{
        recorded_run(share_shelves, recorded_path);
        ck_assert_str_eq(recorded_said, "");
        ck_assert_uint_eq(check_sums(N_THREADS * N_TURNS, N_THREADS * N_TURNS - N_SHELVES,
                                     N_SHELVES * 512 + N_SHELVES * (N_SHELVES - 1) / 2),
                          N_THREADS);
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

        record_as("x.trace.gz", recorded_connect);
        fd = open(recorded_path, O_RDONLY | O_CLOEXEC);
        ck_assert_int_eq(read(fd, magic, 2), 2);
        (void)close(fd);
        ck_assert_uint_eq(magic[0], 0x1f);
        ck_assert_uint_eq(magic[1], 0x8b);
        check_shelves();
}

TEST(nothing_is_lost_when_a_program_is_in_a_hurry)
{
        record_as("x.trace", recorded_hurry);
        (void)check_sums(HURRY_PAIRS, HURRY_PAIRS, 0);
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
        request.flags |= GPUMEM_SHAREABLE;
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
        record_as("x.trace", use_two_clients);
        record_as("x.trace.gz", use_two_clients);
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
        record_as("x.trace", use_pinned);
        (void)check_sums(1, 0, 7000);
        recorded_name("x.trace.pinned");
        (void)check_sums(1, 0, 5000);
}

/* A client of its own, beside the parent's. It ends as programs do, with the library's destructors. */
static void be_a_child(void)
{
        const struct gpumem_options options = {.struct_size = sizeof(options),
                                               .cuda_library = "/none"};
        const struct gpumem_request request = request_in(NULL, GPUMEM_PINNED, 3000);
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
        record_as("x.trace", fork_in_between);
        (void)check_sums(2, 1, 2000);
        recorded_name("x.trace.pinned");
        ck_assert_int_ne(access(recorded_path, F_OK), 0);
}

static void check_said_once(const char *text)
{
        const char *first = strstr(recorded_said, text);

        ck_assert_msg(first, "\"%s\" is not in \"%s\"", text, recorded_said);
        ck_assert_ptr_null(strstr(first + 1, "GPUMEM_TRACE"));
}

TEST(a_full_disk_ends_the_recording_and_not_the_program)
{
        recorded_run(recorded_hurry, "/dev/full");
        check_said_once("GPUMEM_TRACE: /dev/full: No space left on device; recording has stopped");
}

/* As many bytes as a file may have here: what is there of it is whole lines. */
static void hurry_to_the_limit(void)
{
        const struct rlimit limit = {.rlim_cur = 300000, .rlim_max = 300000};

        MUST(setrlimit(RLIMIT_FSIZE, &limit) == 0);
        recorded_hurry();
}

TEST(what_a_full_disk_leaves_is_whole_lines, NEEDS_EMULATOR)
{
        struct sums sums;

        record_as("x.trace", hurry_to_the_limit);
        check_said_once("File too large; recording has stopped");
        sums = recorded_sums();
        ck_assert_uint_gt(sums.n_allocated, 1000);
        ck_assert_uint_lt(sums.n_allocated, HURRY_PAIRS);
}

/* Takes what comes through the fifo, from the moment on at which `go` ends. */
static void read_late(char *fifo, int go)
{
        int fd = open(fifo, O_RDONLY);
        char byte;

        MUST(fd >= 0 && dup2(fd, STDIN_FILENO) == STDIN_FILENO);
        MUST(chdir(dirname(fifo)) == 0 && read(go, &byte, 1) == 0);
        MUST(system("cat >part && mv part copy") == 0);
}

static void hurry_past_a_reader(void)
{
        int go[2];
        pid_t pid;

        MUST(pipe(go) == 0);
        pid = fork();
        MUST(pid >= 0);
        if (pid == 0) {
                (void)close(go[1]);
                read_late(recorded_path, go[0]);
                _exit(0);
        }
        recorded_hurry();
        (void)close(go[1]);
}

static uint64_t read_missing(void)
{
        char line[200];
        unsigned long long n_allocated, n_freed, n_missing = 0;
        FILE *file = fopen(recorded_path, "re");

        ck_assert_ptr_nonnull(file);
        while (fgets(line, sizeof(line), file)) {
                if (line[0] == '#')
                        (void)sscanf(line, "# end: %llu allocations, %llu frees; %llu calls",
                                     &n_allocated, &n_freed, &n_missing);
        }
        (void)fclose(file);
        return n_missing;
}

TEST(what_a_file_that_hangs_costs_is_counted)
{
        uint64_t n_missing;
        struct sums sums;

        recorded_name("x.fifo");
        ck_assert_int_eq(mkfifo(recorded_path, 0600), 0);
        recorded_run(hurry_past_a_reader, recorded_path);
        (void)unlink(recorded_path);
        recorded_name("copy");
        while (access(recorded_path, R_OK) != 0)
                sleep_ms(1);
        n_missing = read_missing();
        sums = recorded_sums();
        ck_assert_uint_gt(n_missing, 0);
        ck_assert_uint_eq(sums.n_allocated + sums.n_freed + n_missing, 2 * HURRY_PAIRS);
}

TEST(a_file_that_cannot_be_made_is_told)
{
        recorded_run(recorded_hurry, "/nowhere/x.trace");
        check_said_once("GPUMEM_TRACE: /nowhere/x.trace: No such file or directory; nothing is "
                        "recorded");
}

static void run_another(void)
{
        pid_t pid;
        int status;

        recorded_connect();
        (void)recorded_alloc(recorded_gpu(), 1000);
        gpumem_disconnect(recorded_client);
        pid = fork();
        MUST(pid >= 0);
        if (pid == 0) {
                (void)execl("/proc/self/exe", "another", "connect", (char *)NULL);
                _exit(127);
        }
        MUST(waitpid(pid, &status, 0) == pid && status == 0);
}

TEST(processes_do_not_share_a_file)
{
        struct sums sums;

        record_as("x.trace", run_another);
        check_said_once("another process records there");
        sums = recorded_sums();
        ck_assert_uint_eq(sums.n_allocated, 1);
}

static void name_by_number(void)
{
        char folder[sizeof(recorded_path)];

        strcpy(folder, recorded_path);
        (void)snprintf(recorded_path, sizeof(recorded_path), "%s/x%d%%", dirname(folder),
                       (int)getpid());
        recorded_connect();
        MUST(access(recorded_path, W_OK) == 0);
        MUST(unlink(recorded_path) == 0);
}

TEST(a_name_can_have_the_processs_number)
{
        record_as("x%p%", name_by_number);
        ck_assert_str_eq(recorded_said, "");
}

int main(int n_arguments, char **arguments)
{
        static const struct test_case tests = {"trace", .limit_s = 120, .start = recorded_start,
                                               .stop = recorded_stop};

        /* The other process. */
        if (n_arguments == 2 && strcmp(arguments[1], "connect") == 0) {
                recorded_connect();
                return 0;
        }
        return run_all_tests(&tests, run_suite);
}
