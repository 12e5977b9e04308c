/* GPUMEM_TRACE: programs of several threads and clients are recorded, and what is in the file is what
 * they did. A program is a forked child here, since a process has one trace and it is whole when the
 * process has ended. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/size.h"
#include "bench/trace.h"
#include "gpumem.h"
#include "tests/demo/gpu.h"
#include "tests/live/daemon.h"
#include "tests/suite.h"

#define N_THREADS 4
#define N_SHELVES 64
#define N_TURNS   4000

static struct daemon gpumemd;
static struct gpumem_client *client;
static char path[200], said[4096];

/* What programs find out about themselves is told by their exit status. */
#define MUST(condition)                                                               \
        do {                                                                          \
                if (!(condition)) {                                                   \
                        (void)fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
                        exit(3);                                                      \
                }                                                                     \
        } while (0)

static void start(void)
{
        static const char *const options[] = {"--pinned-bytes", "64MiB", "--device-bytes", "256MiB",
                                              NULL};

        daemon_start(&gpumemd, "devices=2,bytes=256MiB", options);
}

static void stop(void)
{
        daemon_stop(&gpumemd);
}

static void name_trace(const char *name)
{
        (void)snprintf(path, sizeof(path), "%s/%s", gpumemd.place, name);
}

/* Runs it with its stderr in `said`. Its exit status. */
static int run(void (*program)(void), const char *trace)
{
        char errors[200];
        int status, fd;
        ssize_t n;
        pid_t pid;

        (void)snprintf(errors, sizeof(errors), "%s/stderr", gpumemd.place);
        fd = open(errors, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        ck_assert_int_ge(fd, 0);
        (void)fflush(NULL);
        pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
                MUST(dup2(fd, STDERR_FILENO) >= 0);
                MUST(setenv("GPUMEM_TRACE", trace, 1) == 0);
                program();
                exit(0);
        }
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        n = pread(fd, said, sizeof(said) - 1, 0);
        ck_assert_int_ge(n, 0);
        said[n] = '\0';
        (void)close(fd);
        (void)unlink(errors);
        ck_assert_msg(WIFEXITED(status), "status %d: %s", status, said);
        return WEXITSTATUS(status);
}

struct sums {
        size_t n_allocated;
        size_t n_freed;
        uint64_t n_live_bytes;
        uint32_t n_streams;
};

/* Every id is allocated once, and freed at most once and later. */
static struct sums read_sums(const char *file_path)
{
        struct sums sums = {.n_allocated = 0};
        struct trace trace;
        uint64_t *n_bytes;

        ck_assert_int_eq(trace_read(file_path, &trace), 0);
        n_bytes = calloc(trace.n_ids + 1, sizeof(*n_bytes));
        ck_assert_ptr_nonnull(n_bytes);
        for (size_t i = 0; i < trace.n_events; i++) {
                const struct trace_event *event = &trace.events[i];

                if (event->kind == TRACE_ALLOC) {
                        ck_assert_uint_eq(event->id, sums.n_allocated);
                        ck_assert_uint_gt(event->n_bytes, 0);
                        n_bytes[event->id] = event->n_bytes;
                        sums.n_allocated++;
                        sums.n_live_bytes += event->n_bytes;
                        if (event->stream >= sums.n_streams)
                                sums.n_streams = event->stream + 1;
                } else {
                        ck_assert_uint_gt(n_bytes[event->id], 0);
                        sums.n_live_bytes -= n_bytes[event->id];
                        n_bytes[event->id] = 0;
                        sums.n_freed++;
                }
        }
        free(n_bytes);
        trace_deinit(&trace);
        (void)unlink(file_path);
        return sums;
}

static void connect_client(void)
{
        MUST(gpumem_connect(NULL, &client) == 0);
}

static struct gpumem_request request_of(uint64_t n_bytes, struct gpu *gpu)
{
        return (struct gpumem_request){.struct_size = sizeof(struct gpumem_request),
                                       .kind = GPUMEM_DEVICE,
                                       .place = GPUMEM_NEAREST,
                                       .stream = gpu_stream(gpu),
                                       .n_bytes = n_bytes};
}

static void *must_alloc(struct gpu *gpu, uint64_t n_bytes)
{
        struct gpumem_request request = request_of(n_bytes, gpu);
        void *pointer;

        MUST(gpumem_alloc(client, &request, &pointer) == 0);
        return pointer;
}

static struct gpu *open_gpu(void)
{
        struct gpu *gpu;

        MUST(gpu_new(0, &gpu) == 0);
        MUST(gpu_use(gpu) == 0);
        return gpu;
}

/* Threads put memory on shelves, and free what they find there, which is mostly another's. */
static void *_Atomic shelves[N_SHELVES];

static void *put_and_take(void *argument)
{
        struct gpu *gpu = open_gpu();
        unsigned seed = *(const unsigned *)argument;

        for (unsigned i = 0; i < N_TURNS; i++) {
                unsigned shelf = (unsigned)rand_r(&seed) % N_SHELVES;
                void *before;

                before = atomic_exchange(&shelves[shelf], must_alloc(gpu, 512 + shelf));
                if (before)
                        MUST(gpumem_free(client, before, gpu_stream(gpu)) == 0);
        }
        return NULL;
}

static void share_shelves(void)
{
        unsigned seeds[N_THREADS];
        pthread_t threads[N_THREADS];

        connect_client();
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

        ck_assert_msg(run(share_shelves, path) == 0, "%s", said);
        ck_assert_str_eq(said, "");
        sums = read_sums(path);
        ck_assert_uint_eq(sums.n_allocated, N_THREADS * N_TURNS);
        ck_assert_uint_eq(sums.n_freed, N_THREADS * N_TURNS - N_SHELVES);
        ck_assert_uint_eq(sums.n_live_bytes, N_SHELVES * 512 + N_SHELVES * (N_SHELVES - 1) / 2);
        ck_assert_uint_eq(sums.n_streams, N_THREADS);
}

START_TEST(threads_and_their_streams_are_recorded)
{
        name_trace("x.trace");
        check_shelves();
}
END_TEST

START_TEST(a_name_with_gz_is_compressed)
{
        unsigned char magic[2];
        int fd;

        name_trace("x.trace.gz");
        ck_assert_int_eq(run(connect_client, path), 0);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        ck_assert_int_eq(read(fd, magic, 2), 2);
        (void)close(fd);
        ck_assert_uint_eq(magic[0], 0x1f);
        ck_assert_uint_eq(magic[1], 0x8b);
        check_shelves();
}
END_TEST

/* More calls than the recorder holds at once, faster than it writes. */
static void hurry(void)
{
        struct gpu *gpu = open_gpu();
        void *kept;

        connect_client();
        kept = must_alloc(gpu, 1 * MIB);
        for (unsigned i = 0; i < 100000; i++)
                MUST(gpumem_free(client, must_alloc(gpu, i % 4096 + 1), gpu_stream(gpu)) == 0);
        MUST(gpumem_free_sync(client, kept) == 0);
}

START_TEST(nothing_is_lost_when_a_program_is_in_a_hurry)
{
        struct sums sums;

        name_trace("x.trace");
        ck_assert_msg(run(hurry, path) == 0, "%s", said);
        sums = read_sums(path);
        ck_assert_uint_eq(sums.n_allocated, 100001);
        ck_assert_uint_eq(sums.n_freed, 100001);
        ck_assert_uint_eq(sums.n_live_bytes, 0);
}
END_TEST

/* Failed calls are not recorded; a client's end frees what it has; the file can be read by then. */
static void use_two_clients(void)
{
        struct gpu *gpu = open_gpu();
        struct gpumem_client *first;
        struct gpumem_request request = request_of(UINT64_C(1) << 50, gpu);
        struct sums sums;
        void *pointer;

        connect_client();
        first = client;
        MUST(gpumem_alloc(client, &request, &pointer) != 0);
        request = request_of(1000, gpu);
        request.flags = GPUMEM_SHAREABLE;
        MUST(gpumem_alloc(client, &request, &pointer) == 0);
        MUST(gpumem_free(client, (char *)pointer + 1, gpu_stream(gpu)) != 0);
        MUST(gpumem_free(client, NULL, gpu_stream(gpu)) == 0);
        MUST(gpumem_free(client, pointer, gpu_stream(gpu)) == 0);
        (void)must_alloc(gpu, 2000);
        connect_client();
        (void)must_alloc(gpu, 3000);
        gpumem_disconnect(first);
        sums = read_sums(path);
        MUST(sums.n_allocated == 3 && sums.n_freed == 2 && sums.n_live_bytes == 3000);
        gpumem_disconnect(client);
}

START_TEST(clients_of_a_process_share_a_file)
{
        name_trace("x.trace");
        ck_assert_msg(run(use_two_clients, path) == 0, "%s", said);
        name_trace("x.trace.gz");
        ck_assert_msg(run(use_two_clients, path) == 0, "%s", said);
}
END_TEST

static void use_pinned(void)
{
        struct gpu *gpu = open_gpu();
        struct gpumem_request request = request_of(5000, gpu);
        void *pointer;

        connect_client();
        request.kind = GPUMEM_PINNED;
        MUST(gpumem_alloc(client, &request, &pointer) == 0);
        (void)must_alloc(gpu, 7000);
}

START_TEST(pinned_memory_has_a_file_of_its_own)
{
        struct sums sums;

        name_trace("x.trace");
        ck_assert_msg(run(use_pinned, path) == 0, "%s", said);
        sums = read_sums(path);
        ck_assert_uint_eq(sums.n_allocated, 1);
        ck_assert_uint_eq(sums.n_live_bytes, 7000);
        name_trace("x.trace.pinned");
        sums = read_sums(path);
        ck_assert_uint_eq(sums.n_allocated, 1);
        ck_assert_uint_eq(sums.n_live_bytes, 5000);
}
END_TEST

/* The child ends as programs do, which runs the library's destructors there too. */
static void fork_in_between(void)
{
        struct gpu *gpu = open_gpu();
        void *pointer;
        int status;
        pid_t pid;

        connect_client();
        pointer = must_alloc(gpu, 1000);
        pid = fork();
        MUST(pid >= 0);
        if (pid == 0) {
                struct gpumem_request request = {.struct_size = sizeof(request),
                                                 .kind = GPUMEM_PINNED,
                                                 .place = GPUMEM_NEAREST,
                                                 .n_bytes = 3000};
                unsigned n_fds = own_fds();

                gpumem_disconnect(client);
                MUST(gpumem_connect(
                             &(struct gpumem_options){.struct_size = sizeof(struct gpumem_options),
                                                      .cuda_library = "/none"},
                             &client) == 0);
                MUST(gpumem_alloc(client, &request, &pointer) == 0);
                gpumem_disconnect(client);
                MUST(own_fds() == n_fds);
                exit(0);
        }
        MUST(waitpid(pid, &status, 0) == pid && status == 0);
        MUST(gpumem_free(client, pointer, gpu_stream(gpu)) == 0);
        (void)must_alloc(gpu, 2000);
}

START_TEST(a_forked_child_writes_nothing)
{
        struct sums sums;

        name_trace("x.trace");
        ck_assert_msg(run(fork_in_between, path) == 0, "%s", said);
        sums = read_sums(path);
        ck_assert_uint_eq(sums.n_allocated, 2);
        ck_assert_uint_eq(sums.n_freed, 1);
        ck_assert_uint_eq(sums.n_live_bytes, 2000);
        name_trace("x.trace.pinned");
        ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

static void check_said_once(const char *text)
{
        const char *first = strstr(said, text);

        ck_assert_msg(first, "\"%s\" is not in \"%s\"", text, said);
        ck_assert_ptr_null(strstr(first + 1, "GPUMEM_TRACE"));
}

START_TEST(a_full_disk_ends_the_recording_and_not_the_program)
{
        ck_assert_msg(run(hurry, "/dev/full") == 0, "%s", said);
        check_said_once("GPUMEM_TRACE: /dev/full: No space left on device; recording has stopped");
}
END_TEST

/* As many bytes as a file may have here: what is there of it is whole lines. */
static void hurry_to_the_limit(void)
{
        const struct rlimit limit = {.rlim_cur = 300000, .rlim_max = 300000};

        MUST(setrlimit(RLIMIT_FSIZE, &limit) == 0);
        hurry();
}

START_TEST(what_a_full_disk_leaves_is_whole_lines)
{
        struct sums sums;

        if (!machine_is_emulated())
                return;
        name_trace("x.trace");
        ck_assert_msg(run(hurry_to_the_limit, path) == 0, "%s", said);
        check_said_once("File too large; recording has stopped");
        sums = read_sums(path);
        ck_assert_uint_gt(sums.n_allocated, 1000);
        ck_assert_uint_lt(sums.n_allocated, 100000);
}
END_TEST

START_TEST(a_file_that_cannot_be_made_is_told)
{
        ck_assert_msg(run(hurry, "/nowhere/x.trace") == 0, "%s", said);
        check_said_once("GPUMEM_TRACE: /nowhere/x.trace: No such file or directory; nothing is "
                        "recorded");
}
END_TEST

static void run_another(void)
{
        pid_t pid;
        int status;

        connect_client();
        (void)must_alloc(open_gpu(), 1000);
        gpumem_disconnect(client);
        pid = fork();
        MUST(pid >= 0);
        if (pid == 0) {
                (void)execl("/proc/self/exe", "another", "connect", (char *)NULL);
                _exit(127);
        }
        MUST(waitpid(pid, &status, 0) == pid && status == 0);
}

START_TEST(processes_do_not_share_a_file)
{
        struct sums sums;

        name_trace("x.trace");
        ck_assert_msg(run(run_another, path) == 0, "%s", said);
        check_said_once("another process records there");
        sums = read_sums(path);
        ck_assert_uint_eq(sums.n_allocated, 1);
}
END_TEST

static void name_by_number(void)
{
        (void)snprintf(path, sizeof(path), "%s/x%d%%", gpumemd.place, (int)getpid());
        connect_client();
        MUST(access(path, W_OK) == 0);
        MUST(unlink(path) == 0);
}

START_TEST(a_name_can_have_the_processs_number)
{
        name_trace("x%p%");
        ck_assert_msg(run(name_by_number, path) == 0, "%s", said);
        ck_assert_str_eq(said, "");
}
END_TEST

int main(int n_arguments, char **arguments)
{
        Suite *suite = suite_create("record");
        TCase *tcase = tcase_create("record");

        if (n_arguments == 2 && strcmp(arguments[1], "connect") == 0) {
                connect_client();
                return 0;
        }
        tcase_set_timeout(tcase, 120);
        tcase_add_checked_fixture(tcase, start, stop);
        tcase_add_test(tcase, threads_and_their_streams_are_recorded);
        tcase_add_test(tcase, a_name_with_gz_is_compressed);
        tcase_add_test(tcase, nothing_is_lost_when_a_program_is_in_a_hurry);
        tcase_add_test(tcase, clients_of_a_process_share_a_file);
        tcase_add_test(tcase, pinned_memory_has_a_file_of_its_own);
        tcase_add_test(tcase, a_forked_child_writes_nothing);
        tcase_add_test(tcase, a_full_disk_ends_the_recording_and_not_the_program);
        tcase_add_test(tcase, what_a_full_disk_leaves_is_whole_lines);
        tcase_add_test(tcase, a_file_that_cannot_be_made_is_told);
        tcase_add_test(tcase, processes_do_not_share_a_file);
        tcase_add_test(tcase, a_name_can_have_the_processs_number);
        suite_add_tcase(suite, tcase);
        return run_suite(suite);
}
