/* SPDX-License-Identifier: Apache-2.0 */
/* GPUMEM_DEBUG=guard: a write behind the end of an allocation ends the program at the free, with a message
 * that tells the place; and the other settings. Programs are forked children, since they end. */
#include <sys/resource.h>

#include "tests/live/support/world.h"
#include "tests/live/trace/recorded.h"

/* Bytes of the program, and what is written: WRONG_BYTES of them, from WRONG_OFFSET on. */
#define RIGHT_BYTES  1000
#define WRONG_OFFSET 1003
#define WRONG_BYTES  4

static char said[32768];

static void start(void)
{
        daemon_start(&gpumemd, "devices=1,bytes=256MiB", OPTIONS("--pinned-bytes", "64MiB"));
        ck_assert_int_eq(setenv("GPUMEM_DEBUG", "guard", 1), 0);
}

/* Its status; `said` is what it says on stderr. */
static int run(void (*program)(void))
{
        const struct rlimit no_core = {.rlim_cur = 0};
        int status, fd[2];
        ssize_t n;
        pid_t pid;

        ck_assert_int_eq(pipe(fd), 0);
        (void)fflush(NULL);
        pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
                MUST(dup2(fd[1], STDERR_FILENO) >= 0);
                MUST(close(fd[0]) == 0 && close(fd[1]) == 0);
                MUST(setrlimit(RLIMIT_CORE, &no_core) == 0);
                MUST(signal(SIGABRT, SIG_DFL) != SIG_ERR);
                program();
                exit(0);
        }
        (void)close(fd[1]);
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        n = read(fd[0], said, sizeof(said) - 1);
        ck_assert_int_ge(n, 0);
        said[n] = '\0';
        (void)close(fd[0]);
        return status;
}

static void *alloc(struct gpu *gpu, enum gpumem_kind kind, uint64_t n_bytes)
{
        struct gpumem_request request = recorded_request(n_bytes, gpu);
        void *pointer;

        request.kind = kind;
        MUST(gpumem_alloc(recorded_client, &request, &pointer) == 0);
        return pointer;
}

static void write_bytes(struct gpu *gpu, enum gpumem_kind kind, void *at, uint64_t n_bytes)
{
        if (kind == GPUMEM_PINNED)
                memset(at, 0x11, n_bytes);
        else
                MUST(gpu_fill(gpu, at, 0x11, n_bytes) == 0);
}

/* Of what kind it is, and how it is freed. */
static enum gpumem_kind wrong_kind;
static bool wrong_sync;

/* The first line that the program says is its pointer. */
static void write_wrong(void)
{
        struct gpu *gpu = recorded_gpu();
        unsigned char *pointer;

        recorded_connect();
        pointer = alloc(gpu, wrong_kind, RIGHT_BYTES);
        (void)fprintf(stderr, "%p\n", (void *)pointer);
        write_bytes(gpu, wrong_kind, pointer, RIGHT_BYTES);
        write_bytes(gpu, wrong_kind, pointer + WRONG_OFFSET, WRONG_BYTES);
        if (wrong_sync)
                (void)gpumem_free_sync(recorded_client, pointer);
        else
                (void)gpumem_free(recorded_client, pointer, gpu_stream(gpu));
        _exit(0);
}

static void check_said(const char *part)
{
        ck_assert_msg(strstr(said, part), "\"%s\" is not in: %.3000s", part, said);
}

static const struct test_case traces = {"traces", .limit_s = 60, .start = recorded_start,
                                        .stop = recorded_stop};

/* dladdr knows the names that a program exports. */
GPUMEM_API NOINLINE void leak_two(struct gpu *gpu);
void leak_two(struct gpu *gpu)
{
        volatile unsigned n = 2; /* so that both have one stack: the loop is not unrolled */

        while (n--)
                (void)alloc(gpu, wrong_kind, RIGHT_BYTES);
}

GPUMEM_API NOINLINE void free_it(struct gpu *gpu, void *pointer);
void free_it(struct gpu *gpu, void *pointer)
{
        (void)gpumem_free(recorded_client, pointer, gpu_stream(gpu));
        (void)fflush(stderr);
}

GPUMEM_API NOINLINE void free_twice_in(struct gpu *gpu);
void free_twice_in(struct gpu *gpu)
{
        void *pointer;
        char here;

        pointer = alloc(gpu, wrong_kind, RIGHT_BYTES);
        free_it(gpu, pointer);
        free_it(gpu, pointer);
        free_it(gpu, &here);
}

static void free_twice(void)
{
        struct gpu *gpu = recorded_gpu();

        MUST(setenv("GPUMEM_DEBUG", "stacks", 1) == 0);
        recorded_connect();
        free_twice_in(gpu);
        _exit(0);
}

static void use_closed(void)
{
        struct gpu *gpu = recorded_gpu();
        struct gpumem_stream *handle;
        void *pointer;

        MUST(setenv("GPUMEM_DEBUG", "stacks", 1) == 0);
        recorded_connect();
        MUST(gpumem_stream_open(recorded_client, gpu_stream(gpu), &handle) == 0);
        MUST(gpumem_stream_close(handle) == 0);
        MUST(gpumem_stream_alloc(handle, RIGHT_BYTES, &pointer) == GPUMEM_E_CLOSED);
        (void)fflush(stderr);
        _exit(0);
}

static void leak(void)
{
        struct gpu *gpu = recorded_gpu();

        MUST(setenv("GPUMEM_DEBUG", "leaks", 1) == 0);
        recorded_connect();
        free_it(gpu, alloc(gpu, wrong_kind, RIGHT_BYTES));
        leak_two(gpu);
        if (wrong_sync)
                gpumem_disconnect(recorded_client);
        exit(0);
}

/* One message, of what and where. */
TEST(damage_ends_the_program, .to = 4)
{
        char pointer[100], *message;
        int status;

        wrong_kind = _i & 1 ? GPUMEM_PINNED : GPUMEM_DEVICE;
        wrong_sync = _i & 2;
        status = run(write_wrong);
        ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "status %d: %s", status,
                      said);
        message = strchr(said, '\n');
        ck_assert_ptr_nonnull(message);
        *message++ = '\0';
        (void)snprintf(pointer, sizeof(pointer), "%s memory at %.40s, of 1000 bytes",
                       wrong_kind == GPUMEM_PINNED ? "pinned" : "device", said);
        memmove(said, message, strlen(message) + 1);
        check_said("GPUMEM_DEBUG: guard: the program has written behind the end");
        check_said(pointer);
        check_said(wrong_sync ? "freed by gpumem_free_sync" : "freed in stream 0x");
        check_said("offset 1003; 4 of the 512 guard bytes");
        check_said("Correct the copy");
        ck_assert_ptr_eq(strchr(said, '\n'), said + strlen(said) - 1);
}

static void write_right_in(enum gpumem_kind kind)
{
        static const uint64_t sizes[] = {1, 511, 512, 513, 2 * MIB};
        struct gpu *gpu = recorded_gpu();
        void *pointers[ARRAY_SIZE(sizes)];

        recorded_connect();
        for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
                pointers[i] = alloc(gpu, kind, sizes[i]);
                write_bytes(gpu, kind, pointers[i], sizes[i]);
        }
        for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++)
                MUST(gpumem_free(recorded_client, pointers[i], gpu_stream(gpu)) == 0);
        gpumem_disconnect(recorded_client);
}

static void write_right(void)
{
        write_right_in(GPUMEM_DEVICE);
        write_right_in(GPUMEM_PINNED);
}

TEST(without_damage_nothing_is_said)
{
        ck_assert_int_eq(run(write_right), 0);
        ck_assert_str_eq(said, "");
}

static void be_a_child(void)
{
        const struct gpumem_options options = {.struct_size = sizeof(options),
                                               .cuda_library = "/none"};
        const struct gpumem_request request = request_in(NULL, GPUMEM_PINNED, RIGHT_BYTES);
        struct gpumem_client *client;
        unsigned char *bytes;
        void *pointer;

        MUST(gpumem_connect(&options, &client) == 0);
        MUST(gpumem_alloc(client, &request, &pointer) == 0);
        bytes = pointer;
        MUST(bytes[0] == 0xA5 && bytes[RIGHT_BYTES] == 0xFD);
        MUST(gpumem_free(client, pointer, NULL) == 0);
        gpumem_disconnect(client);
        gpumem_disconnect(recorded_client);
        _exit(0);
}

/* The thread sanitizer ends a child of several threads that begins one. */
static bool may_begin_threads_in_a_child(void)
{
#if defined(__SANITIZE_THREAD__)
        return false;
#else
        return true;
#endif
}

/* The parent's allocations are none of the child's. */
static void fork_in_between(void)
{
        struct gpu *gpu = recorded_gpu();
        void *pointer;
        int status;
        pid_t pid;

        recorded_connect();
        pointer = alloc(gpu, GPUMEM_DEVICE, RIGHT_BYTES);
        pid = fork();
        MUST(pid >= 0);
        if (pid == 0) {
                MUST(gpumem_free(recorded_client, pointer, gpu_stream(gpu)) == GPUMEM_E_FORKED);
                MUST(setenv("GPUMEM_DEBUG", "fill,guard", 1) == 0);
                be_a_child();
        }
        MUST(waitpid(pid, &status, 0) == pid && status == 0);
        MUST(gpumem_free(recorded_client, pointer, gpu_stream(gpu)) == 0);
}

TEST(a_forked_child_has_checks_of_its_own, .can_run = may_begin_threads_in_a_child,
     .needs = "a child that may begin threads")
{
        ck_assert_int_eq(run(fork_in_between), 0);
        ck_assert_str_eq(said, "");
}

static void connect_with(const char *value, int result)
{
        struct gpumem_refusal refusal = {.struct_size = sizeof(refusal)};
        struct gpumem_client *client;

        MUST(setenv("GPUMEM_DEBUG", value, 1) == 0);
        MUST(gpumem_connect(NULL, &client) == result);
        if (!result) {
                gpumem_disconnect(client);
                return;
        }
        MUST(gpumem_last_refusal(NULL, &refusal) == 0);
        MUST(refusal.code == GPUMEM_E_BAD_DEBUG);
        MUST(strstr(refusal.text, "GPUMEM_DEBUG"));
        MUST(strstr(refusal.text, value));
        MUST(strstr(refusal.text, "allowed: fill, guard"));
}

static void try_settings(void)
{
        static const char *const good[] = {"", "fill", "guard", "guard,fill", "fill,fill"};
        static const char *const bad[] = {"fil", "fills", "fill,", ",guard",
                                          ",",   "FILL",  "1",     "fill guard"};

        for (unsigned i = 0; i < ARRAY_SIZE(good); i++)
                connect_with(good[i], 0);
        for (unsigned i = 0; i < ARRAY_SIZE(bad); i++)
                connect_with(bad[i], GPUMEM_E_BAD_DEBUG);
}

TEST(unknown_words_are_refused)
{
        ck_assert_int_eq(run(try_settings), 0);
        ck_assert_str_eq(said, "");
}

static void record_some(void)
{
        struct gpu *gpu = recorded_gpu();
        void *pointer;

        recorded_connect();
        pointer = recorded_alloc(gpu, 1);
        (void)recorded_alloc(gpu, RIGHT_BYTES);
        MUST(gpumem_free(recorded_client, pointer, gpu_stream(gpu)) == 0);
        pointer = recorded_alloc(gpu, 512);
        MUST(gpumem_free_sync(recorded_client, pointer) == 0);
}

TEST(traces_tell_the_programs_sizes, .in = &traces)
{
        struct sums sums;

        ck_assert_int_eq(setenv("GPUMEM_DEBUG", "fill,guard", 1), 0);
        recorded_name("x.trace");
        recorded_run(record_some, recorded_path);
        ck_assert_str_eq(recorded_said, "");
        sums = recorded_sums();
        ck_assert_uint_eq(sums.n_allocated, 3);
        ck_assert_uint_eq(sums.n_freed, 2);
        ck_assert_uint_eq(sums.n_live_bytes, RIGHT_BYTES);
}

TEST(a_free_that_finds_nothing_tells_the_calls, .to = 2)
{
        const char *second;

        wrong_kind = _i ? GPUMEM_PINNED : GPUMEM_DEVICE;
        ck_assert_int_eq(run(free_twice), 0);
        check_said("second free: nothing is allocated at ");
        check_said("stacks: freed now by");
        check_said("stacks: freed before by");
        check_said("stacks: and allocated by");
        check_said(" free_it in ");
        check_said(" free_twice_in in ");
        second = strstr(said, "free of what is not gpumemd's");
        ck_assert_ptr_nonnull(second);
        ck_assert_ptr_nonnull(strstr(second, "freed now by"));
        ck_assert_ptr_null(strstr(second, "freed before by"));
}

TEST(a_handle_that_is_used_after_its_close_tells_the_calls)
{
        ck_assert_int_eq(run(use_closed), 0);
        check_said("the handle of a stream is used after its last close");
        check_said("stacks: used now by");
        check_said("stacks: closed before by");
}

/* At the client's end, or else at the process's; once. */
TEST(what_is_never_freed_is_told_with_its_calls, .to = 4)
{
        const char *first;

        wrong_kind = _i & 1 ? GPUMEM_PINNED : GPUMEM_DEVICE;
        wrong_sync = _i & 2;
        ck_assert_int_eq(run(leak), 0);
        first = strstr(said, "leaks: 2000 bytes in 2 allocations were not freed");
        ck_assert_msg(first, "%.3000s", said);
        ck_assert_ptr_null(strstr(first + 1, "leaks: 2000 bytes in 2 allocations were"));
        check_said("leaks: 2000 bytes in 2 allocations, one at ");
        check_said(" leak_two in ");
}

static void log_debug_level(void)
{
        MUST(setenv("GPUMEM_DEBUG", "", 1) == 0);
        MUST(setenv("GPUMEM_LOG", wrong_sync ? "loud" : "debug", 1) == 0);
        MUST(setenv("GPUMEM_SOCKET", "/nowhere/gpumemd.sock", 1) == 0);
        (void)gpumem_connect(NULL, &recorded_client);
        _exit(0);
}

TEST(the_library_writes_what_its_level_says, .to = 2)
{
        wrong_sync = _i;
        ck_assert_int_eq(run(log_debug_level), 0);
        if (_i) {
                check_said("GPUMEM_LOG: \"loud\" is none of error, warning, info, debug");
                ck_assert_ptr_null(strstr(said, "/nowhere/gpumemd.sock"));
        } else {
                check_said("gpumem: debug: ");
                check_said("/nowhere/gpumemd.sock");
        }
}

TESTS_MAIN("programs", .limit_s = 60, .start = start, .stop = gpumemd_stop)
