/* SPDX-License-Identifier: Apache-2.0 */
/* Faults that the emulated driver is asked for: by its environment variable, and by a file in the
 * machine's directory while it runs. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "tests/contract/contract.h"

#define FULL    CUDA_ERROR_OUT_OF_MEMORY
#define UNKNOWN CUDA_ERROR_UNKNOWN
#define LOST    CUDA_ERROR_DEVICE_UNAVAILABLE

static char directory[512];

/* The faults are of this process's environment; the file's directory is known. */
static void machine_with(const char *faults)
{
        char options[256];
        const char *path;

        (void)snprintf(options, sizeof(options), "%s%s%s", CONTRACT_OPTIONS, *faults ? "," : "",
                       faults);
        contract_configure(options);
        path = strstr(getenv("GPUMEM_EMULATOR"), "dir=");
        ck_assert_ptr_nonnull(path);
        (void)snprintf(directory, sizeof(directory), "%s", path + strlen("dir="));
}

static void file_path(const char *name, char ret_path[static 600])
{
        (void)snprintf(ret_path, 600, "%s/%s", directory, name);
}

/* As a test of a daemon would: whole, in one step. */
static void file_write(const char *text)
{
        char path[600], new_path[600];
        FILE *file;

        file_path("faults", path);
        file_path("faults.new", new_path);
        file = fopen(new_path, "we");
        ck_assert_ptr_nonnull(file);
        ck_assert_int_ge(fputs(text, file), 0);
        ck_assert_int_eq(fclose(file), 0);
        ck_assert_int_eq(rename(new_path, path), 0);
}

static void file_remove(void)
{
        char path[600];

        file_path("faults", path);
        ck_assert_int_eq(unlink(path), 0);
}

static CUresult create(void)
{
        CUmemAllocationProp properties = contract_properties(CU_MEM_HANDLE_TYPE_NONE);
        CUmemGenericAllocationHandle handle;
        CUresult r = cu.cuMemCreate(&handle, CONTRACT_GRANULE, &properties, 0);

        if (r == CUDA_SUCCESS)
                ck_ok(cu.cuMemRelease(handle));
        return r;
}

TEST(the_file_is_not_looked_for)
{
        machine_with("fault_file=0");
        contract_init();
        file_write("fail=cuMemCreate:*:2\n");
        ck_ok(create());
        file_remove();
}

TEST(the_nth_call_fails_and_no_other)
{
        machine_with("fail=cuMemCreate:3:2");
        contract_init();
        ck_ok(create());
        ck_ok(create());
        ck_cuda(FULL, create());
        ck_ok(create());
}

TEST(every_call_may_fail)
{
        CUdeviceptr address;

        machine_with("fail=cuMemAlloc:*:999,fail=cuMemCreate:1:2,fail=cuMemCreate:2:999");
        (void)contract_context();
        for (int i = 0; i < 3; i++)
                ck_cuda(UNKNOWN, cu.cuMemAlloc(&address, 4096));
        ck_cuda(FULL, create());
        ck_cuda(UNKNOWN, create());
        ck_ok(create());
}

#define N_TRIALS 2000

/* Which of so many calls fail. */
static unsigned fail_by_chance(const char *faults, bool ret_failed[static N_TRIALS])
{
        unsigned n_failed = 0;

        file_write(faults);
        for (unsigned i = 0; i < N_TRIALS; i++) {
                ret_failed[i] = create() == FULL;
                n_failed += ret_failed[i];
        }
        return n_failed;
}

TEST(some_calls_fail_by_chance)
{
        static bool failed[N_TRIALS], again[N_TRIALS], others[N_TRIALS];
        unsigned n_failed;

        machine_with("");
        contract_init();
        n_failed = fail_by_chance("fail=cuMemCreate:10%:2\n", failed);
        ck_assert_uint_ge(n_failed, N_TRIALS / 10 - N_TRIALS / 40);
        ck_assert_uint_le(n_failed, N_TRIALS / 10 + N_TRIALS / 40);
        ck_assert_uint_eq(fail_by_chance("seed=0\nfail=cuMemCreate:10%:2\n", again), n_failed);
        ck_assert_mem_eq(failed, again, sizeof(failed));
        (void)fail_by_chance("seed=1\nfail=cuMemCreate:10%:2\n", others);
        ck_assert_mem_ne(failed, others, sizeof(failed));
        ck_assert_uint_eq(fail_by_chance("fail=cuMemCreate:100%:2\n", again), N_TRIALS);
        n_failed = fail_by_chance("fail=cuMemMap:100%:2\nfail=cuMemCreate:1%:2\n", again);
        ck_assert_uint_ge(n_failed, N_TRIALS / 400);
        ck_assert_uint_le(n_failed, N_TRIALS / 40);
}

TEST(the_variable_may_say_a_rate)
{
        machine_with("fail=cuMemCreate:100%:2,seed=3");
        contract_init();
        ck_cuda(FULL, create());
}

TEST(a_name_is_not_the_start_of_another)
{
        CUstream stream;

        machine_with("fail=cuStreamCreate:*:999");
        (void)contract_context();
        ck_cuda(UNKNOWN, cu.cuStreamCreate(&stream, 0));
        ck_ok(cu.cuStreamCreateWithPriority(&stream, 0, 0));
}

TEST(the_driver_may_not_even_start)
{
        machine_with("fail=cuInit:1:100");
        ck_cuda(CUDA_ERROR_NO_DEVICE, cu.cuInit(0));
        ck_cuda(CUDA_ERROR_NO_DEVICE, cu.cuInit(0));
        ck_cuda(CUDA_ERROR_NOT_INITIALIZED, create());
}

TEST(hot_calls_fail_too)
{
        CUstreamCaptureStatus status;

        machine_with("fail=cuStreamIsCapturing:2:999");
        (void)contract_context();
        ck_ok(cu.cuStreamIsCapturing(NULL, &status));
        ck_cuda(UNKNOWN, cu.cuStreamIsCapturing(NULL, &status));
        ck_ok(cu.cuStreamIsCapturing(NULL, &status));
}

TEST(calls_take_longer)
{
        uint64_t from_ns;

        machine_with("delay=cuMemCreate:30000");
        contract_init();
        from_ns = clock_now_ns();
        ck_ok(create());
        ck_assert_uint_ge(clock_now_ns() - from_ns, 30000000);
}

static const struct {
        const char *faults;
        CUresult expected;
} losses[] = {
        {"lost=cuMemCreate:2", LOST},
        {"lost=cuMemCreate:2:719", CUDA_ERROR_LAUNCH_FAILED},
};

TEST(a_lost_device_stays_lost, .to = ARRAY_SIZE(losses))
{
        CUstreamCaptureStatus status;
        size_t n_free, n_total;

        machine_with(losses[_i].faults);
        (void)contract_context();
        ck_ok(create());
        ck_ok(cu.cuMemGetInfo(&n_free, &n_total));
        for (int i = 0; i < 2; i++) {
                ck_cuda(losses[_i].expected, create());
                ck_cuda(losses[_i].expected, cu.cuMemGetInfo(&n_free, &n_total));
                ck_cuda(losses[_i].expected, cu.cuStreamIsCapturing(NULL, &status));
        }
        file_write("");
        ck_ok(create());
}

TEST(calls_are_counted)
{
        char name[32], path[600], text[16] = "";
        FILE *file;

        machine_with("");
        (void)contract_context();
        file_write("count=cuMemCreate");
        for (unsigned i = 0; i < 3; i++)
                ck_ok(create());
        (void)snprintf(name, sizeof(name), "calls.%d", (int)getpid());
        file_path(name, path);
        file = fopen(path, "re");
        ck_assert_ptr_nonnull(file);
        ck_assert_ptr_nonnull(fgets(text, sizeof(text), file));
        (void)fclose(file);
        ck_assert_str_eq(text, "3\n");
}

struct caller {
        pthread_t thread;
        CUresult result;
        int has_returned; /* atomic */
};

static void *call(void *argument)
{
        struct caller *caller = argument;

        caller->result = create();
        __atomic_store_n(&caller->has_returned, 1, __ATOMIC_RELEASE);
        return NULL;
}

static void caller_start(struct caller *caller)
{
        *caller = (struct caller){.result = UNKNOWN};
        ck_assert_int_eq(pthread_create(&caller->thread, NULL, call, caller), 0);
}

static int has_returned(const struct caller *caller)
{
        return __atomic_load_n(&caller->has_returned, __ATOMIC_ACQUIRE);
}

static void caller_finish(struct caller *caller)
{
        ck_assert_int_eq(pthread_join(caller->thread, NULL), 0);
        ck_ok(caller->result);
}

/* While it hangs, other threads call: it holds nothing that they need. */
TEST(a_hanging_call_holds_no_other_up)
{
        struct caller hanging;
        CUdeviceptr address;
        int n_looks = 0;

        machine_with("hang=cuMemCreate:*");
        contract_init();
        caller_start(&hanging);
        while (contract_pause(&n_looks), n_looks < 10) {
                ck_ok(cu.cuMemAddressReserve(&address, CONTRACT_GRANULE, 0, 0, 0));
                ck_ok(cu.cuMemAddressFree(address, CONTRACT_GRANULE));
                ck_assert(!has_returned(&hanging));
        }
        file_write("# nothing fails\n");
        caller_finish(&hanging);
}

TEST(faults_come_and_go_while_the_driver_runs)
{
        machine_with("");
        contract_init();
        ck_ok(create());
        file_write("fail=cuMemCreate:*:2\n");
        ck_cuda(FULL, create());
        file_write("\n# counted from now on\nfail=cuMemCreate:2:999\n");
        ck_ok(create());
        ck_cuda(UNKNOWN, create());
        ck_ok(create());
        file_write("fail=*:*:2\n");
        ck_cuda(FULL, create());
        file_remove();
        ck_ok(create());
}

TEST(the_file_stands_in_for_the_variable)
{
        machine_with("fail=cuMemCreate:*:2");
        contract_init();
        ck_cuda(FULL, create());
        file_write("fail=cuMemAddressReserve:*:2");
        ck_ok(create());
        file_remove();
        ck_cuda(FULL, create());
}

static void other_process(int socket)
{
        struct caller caller;
        int n_looks = 0;

        contract_init();
        ck_ok(create());
        contract_send(socket, 'r', -1);
        (void)contract_receive(socket, 'g');
        ck_cuda(FULL, create());
        contract_send(socket, 'f', -1);
        (void)contract_receive(socket, 'g');
        caller_start(&caller);
        while (contract_pause(&n_looks), n_looks < 10)
                ck_assert(!has_returned(&caller));
        contract_send(socket, 'h', -1);
        caller_finish(&caller);
        contract_send(socket, 'd', -1);
}

TEST(another_process_is_made_to_fail_and_hang_and_recovers)
{
        struct contract_peer peer;

        machine_with("");
        peer = contract_start(other_process);
        (void)contract_receive(peer.socket, 'r');
        file_write("fail=cuMemCreate:1:2");
        contract_send(peer.socket, 'g', -1);
        (void)contract_receive(peer.socket, 'f');
        file_write("hang=cuMemCreate:*");
        contract_send(peer.socket, 'g', -1);
        (void)contract_receive(peer.socket, 'h');
        file_remove();
        (void)contract_receive(peer.socket, 'd');
        contract_finish(&peer);
}

TEST(a_fault_may_be_for_one_process)
{
        char text[128];

        machine_with("");
        contract_init();
        (void)snprintf(text, sizeof(text), "pid=%d\nfail=cuMemCreate:1:2\n", (int)getpid());
        file_write(text);
        ck_cuda(FULL, create());
        ck_ok(create());
        file_write("pid=1\nfail=cuMemCreate:*:2\n");
        ck_ok(create());
        file_write("pid=1\nfail=cuMemCreate:*:2\npid=*\nfail=cuMemCreate:1:999\n");
        ck_cuda(UNKNOWN, create());
}

static const char *const bad_files[] = {
        "# for no process\npid=me\n",
        "pid=1\nfail=cuMemCreate:0:2\n",
        "fail=cuMemCreate:1:2\nfail=cuMemCreate:0:2\n",
        "fail=cuMemCreate:1:2\nfail cuMemCreate\n",
        "fail=cuMemCreate:1:2\nfail=cuMemCrate:1:2\n",
};

/* On stderr, once; the calls go on without faults. */
TEST(a_file_with_a_mistake_has_no_faults, .to = ARRAY_SIZE(bad_files))
{
        int saved, pipe_fds[2];
        char text[512];
        ssize_t n;

        machine_with("");
        contract_init();
        file_write(bad_files[_i]);
        saved = dup(STDERR_FILENO);
        ck_assert_int_eq(pipe(pipe_fds), 0);
        ck_assert_int_ge(dup2(pipe_fds[1], STDERR_FILENO), 0);
        ck_ok(create());
        ck_ok(create());
        ck_assert_int_ge(dup2(saved, STDERR_FILENO), 0);
        (void)close(pipe_fds[1]);
        n = read(pipe_fds[0], text, sizeof(text) - 1);
        ck_assert_int_gt(n, 0);
        text[n] = '\0';
        ck_assert_msg(strstr(text, "line 2") || strstr(text, "cuMemCrate"), "%s", text);
        ck_assert_ptr_eq(strchr(text, '\n'), text + n - 1);
}

CONTRACT_MAIN("faults")
