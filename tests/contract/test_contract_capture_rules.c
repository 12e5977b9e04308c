/* SPDX-License-Identifier: Apache-2.0 */
/* What may be called while a stream captures, on which thread and in which mode, and what becomes of the capture. */
#include <sys/mman.h>

#include "base/err.h"
#include "tests/contract/contract.h"

#define N_BYTES ((size_t)1 << 16)

static CUstream capturing, other;
static CUevent captured, outside;
static CUdeviceptr memory;
static void *pinned, *registered;
static CUgraph graph;
static CUgraphExec executable;
static struct contract_block block;

/* What a call says, and whether the capture survives it. */
struct rule {
        const char *name;
        CUresult (*call)(void);
        CUresult expected;
};

static void *host_memory(void)
{
        void *bytes = mmap(NULL, N_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                           0);

        ck_assert_ptr_ne(bytes, MAP_FAILED);
        return bytes;
}

static void world_new(void)
{
        capturing = contract_stream(CU_STREAM_NON_BLOCKING);
        other = contract_stream(CU_STREAM_NON_BLOCKING);
        captured = contract_event(CU_EVENT_DISABLE_TIMING);
        outside = contract_event(CU_EVENT_DEFAULT);
        ck_ok(cu.cuEventRecord(outside, other));
        ck_ok(cu.cuMemAlloc(&memory, N_BYTES));
        ck_ok(cu.cuMemHostAlloc(&pinned, N_BYTES, CU_MEMHOSTALLOC_PORTABLE));
        registered = host_memory();
        ck_ok(cu.cuMemHostRegister(registered, N_BYTES, CU_MEMHOSTREGISTER_PORTABLE));
        block = contract_map(contract_create(CONTRACT_GRANULE, CU_MEM_HANDLE_TYPE_NONE),
                             CONTRACT_GRANULE);
        ck_ok(cu.cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_RELAXED));
        ck_ok(cu.cuMemsetD8Async(memory, 1, 4, other));
        ck_ok(cu.cuStreamEndCapture(other, &graph));
        ck_ok(cu.cuGraphInstantiate(&executable, graph, 0));
        ck_ok(cu.cuCtxSynchronize());
}

static void mode_set(CUstreamCaptureMode mode)
{
        ck_ok(cu.cuThreadExchangeStreamCaptureMode(&mode));
}

static CUstreamCaptureStatus status_of(CUstream stream)
{
        CUstreamCaptureStatus status;

        ck_ok(cu.cuStreamIsCapturing(stream, &status));
        return status;
}

static void capture_survives(void)
{
        CUgraph ended = NULL;

        ck_assert_int_eq(status_of(capturing), CU_STREAM_CAPTURE_STATUS_ACTIVE);
        ck_ok(cu.cuStreamEndCapture(capturing, &ended));
        ck_assert_ptr_nonnull(ended);
        ck_ok(cu.cuGraphDestroy(ended));
}

static void capture_is_lost(void)
{
        CUgraph ended = graph;

        ck_assert_int_eq(status_of(capturing), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
        ck_cuda(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu.cuMemsetD8Async(memory, 1, 4, capturing));
        ck_cuda(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu.cuEventRecord(captured, capturing));
        ck_cuda(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu.cuStreamEndCapture(capturing, &ended));
        ck_assert_ptr_null(ended);
        ck_assert_int_eq(status_of(capturing), CU_STREAM_CAPTURE_STATUS_NONE);
        ck_ok(cu.cuMemsetD8Async(memory, 1, 4, capturing));
        ck_ok(cu.cuStreamSynchronize(capturing));
}

/* In every mode of the capture and of the thread. */
static void rule_check(const struct rule *rule, int (*is_lost)(int mode, int thread_mode))
{
        (void)contract_context();
        for (int mode = 0; mode < 3; mode++) {
                for (int thread_mode = 0; thread_mode < 3; thread_mode++) {
                        CUresult expected;

                        world_new();
                        ck_ok(cu.cuStreamBeginCapture(capturing, (CUstreamCaptureMode)mode));
                        ck_ok(cu.cuEventRecord(captured, capturing));
                        mode_set((CUstreamCaptureMode)thread_mode);
                        expected = is_lost(mode, thread_mode) ? rule->expected : CUDA_SUCCESS;
                        ck_assert_msg(rule->call() == expected, "%s, mode %d, thread's %d",
                                      rule->name, mode, thread_mode);
                        mode_set(CU_STREAM_CAPTURE_MODE_GLOBAL);
                        if (is_lost(mode, thread_mode))
                                capture_is_lost();
                        else
                                capture_survives();
                }
        }
}

static int never(int mode, int thread_mode)
{
        (void)mode;
        (void)thread_mode;
        return 0;
}

static int always(int mode, int thread_mode)
{
        return !never(mode, thread_mode);
}

static int unless_relaxed(int mode, int thread_mode)
{
        return mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
               thread_mode != CU_STREAM_CAPTURE_MODE_RELAXED;
}

#define CALL(name, expression)       \
        static CUresult name(void)   \
        {                            \
                return (expression); \
        }

static CUdeviceptr address;
static void *host;
static CUstream stream;
static CUevent event;
static size_t n_free, n_total;
static unsigned type;
static float ms;

CALL(alloc, cu.cuMemAlloc(&address, N_BYTES))
CALL(alloc_much, cu.cuMemAlloc(&address, 16 * CONTRACT_GRANULE))
CALL(release, cu.cuMemFree(memory))
CALL(host_alloc, cu.cuMemHostAlloc(&host, N_BYTES, 0))
CALL(host_free, cu.cuMemFreeHost(pinned))
CALL(host_register, cu.cuMemHostRegister(host_memory(), N_BYTES, 0))
CALL(host_unregister, cu.cuMemHostUnregister(registered))
CALL(event_query, cu.cuEventQuery(outside))
CALL(event_wait, cu.cuEventSynchronize(outside))
CALL(other_query, cu.cuStreamQuery(other))
CALL(other_wait, cu.cuStreamSynchronize(other))
CALL(instantiate, cu.cuGraphInstantiate(&executable, graph, 0))
CALL(executable_destroy, cu.cuGraphExecDestroy(executable))

#define REFUSED              CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
#define RULE(call, expected) ((struct rule){#call, call, expected})

static const struct rule unsafe[] = {
        RULE(alloc, REFUSED),
        RULE(alloc_much, REFUSED),
        RULE(release, REFUSED),
        RULE(host_alloc, REFUSED),
        RULE(host_free, REFUSED),
        RULE(host_register, REFUSED),
        RULE(host_unregister, REFUSED),
        RULE(event_query, REFUSED),
        RULE(event_wait, REFUSED),
        RULE(other_query, REFUSED),
        RULE(other_wait, REFUSED),
        RULE(instantiate, REFUSED),
        RULE(executable_destroy, REFUSED),
};

TEST(unsafe_calls_are_refused_unless_relaxed, .to = ARRAY_SIZE(unsafe))
{
        rule_check(&unsafe[_i], unless_relaxed);
}

CALL(own_query, cu.cuStreamQuery(capturing))
CALL(own_wait, cu.cuStreamSynchronize(capturing))
CALL(context_wait, cu.cuCtxSynchronize())
CALL(captured_query, cu.cuEventQuery(captured))
CALL(captured_wait, cu.cuEventSynchronize(captured))
CALL(wait_for_outside, cu.cuStreamWaitEvent(capturing, outside, 0))
CALL(launch_into_it, cu.cuGraphLaunch(executable, capturing))

static CUresult end_of_a_fork(void)
{
        CUgraph ended = graph;

        ck_ok(cu.cuStreamWaitEvent(other, captured, 0));
        return cu.cuStreamEndCapture(other, &ended);
}

static const struct rule conflicts[] = {
        RULE(own_query, REFUSED),
        RULE(own_wait, REFUSED),
        RULE(context_wait, REFUSED),
        RULE(captured_query, CUDA_ERROR_CAPTURED_EVENT),
        RULE(captured_wait, CUDA_ERROR_CAPTURED_EVENT),
        RULE(wait_for_outside, CUDA_ERROR_STREAM_CAPTURE_ISOLATION),
        RULE(launch_into_it, REFUSED),
        RULE(end_of_a_fork, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED),
};

TEST(conflicting_calls_are_refused_in_every_mode, .to = ARRAY_SIZE(conflicts))
{
        rule_check(&conflicts[_i], always);
}

CALL(memory_info, cu.cuMemGetInfo(&n_free, &n_total))
CALL(pointer_ask, cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory))
CALL(host_pointer, cu.cuMemHostGetDevicePointer(&address, pinned, 0))
CALL(event_create, cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING))
CALL(event_destroy, cu.cuEventDestroy(captured))
CALL(record_elsewhere, cu.cuEventRecord(outside, other))
CALL(record_in_the_default, cu.cuEventRecord(outside, NULL))
CALL(elapsed, cu.cuEventElapsedTime(&ms, outside, outside))
CALL(stream_create, cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING))
CALL(stream_destroy, cu.cuStreamDestroy(other))
CALL(fill_elsewhere, cu.cuMemsetD8Async(memory, 1, 4, other))
CALL(fill_in_the_default, cu.cuMemsetD8Async(memory, 1, 4, NULL))
CALL(fill_and_wait, cu.cuMemsetD8(memory, 1, 4))
CALL(copy_and_wait, cu.cuMemcpyHtoD(memory, pinned, 4))
CALL(launch_elsewhere, cu.cuGraphLaunch(executable, other))
CALL(graph_destroy, cu.cuGraphDestroy(graph))

static CUresult reserve(void)
{
        CUresult r = cu.cuMemAddressReserve(&address, CONTRACT_GRANULE, 0, 0, 0);

        ck_ok(r);
        return cu.cuMemAddressFree(address, CONTRACT_GRANULE);
}

static CUresult map(void)
{
        contract_unmap(&block);
        block = contract_map(block.handle, block.n_bytes);
        contract_unmap(&block);
        return cu.cuMemRelease(block.handle);
}

/* As the library moves a block. */
static CUresult move(void)
{
        CUmemGenericAllocationHandle handle = block.handle, again;

        ck_ok(cu.cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)block.address));
        contract_unmap(&block);
        block = contract_map(again, block.n_bytes);
        contract_unmap(&block);
        ck_ok(cu.cuMemRelease(again));
        return cu.cuMemRelease(handle);
}

static CUresult share(void)
{
        CUmemAllocationHandleType fd = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

        return cu.cuMemRelease(
                contract_import(contract_export(contract_create(CONTRACT_GRANULE, fd))));
}

/* One that was never recorded has nothing in it that could be outside. */
static CUresult wait_for_nothing(void)
{
        ck_ok(event_create());
        return cu.cuStreamWaitEvent(capturing, event, 0);
}

static const struct rule harmless[] = {
        RULE(memory_info, 0),    RULE(pointer_ask, 0),    RULE(host_pointer, 0),
        RULE(event_create, 0),   RULE(event_destroy, 0),  RULE(record_elsewhere, 0),
        RULE(elapsed, 0),        RULE(stream_create, 0),  RULE(record_in_the_default, 0),
        RULE(stream_destroy, 0), RULE(fill_elsewhere, 0), RULE(fill_in_the_default, 0),
        RULE(fill_and_wait, 0),  RULE(copy_and_wait, 0),  RULE(launch_elsewhere, 0),
        RULE(graph_destroy, 0),  RULE(reserve, 0),        RULE(map, 0),
        RULE(move, 0),           RULE(share, 0),          RULE(wait_for_nothing, 0),
};

TEST(harmless_calls_are_allowed_in_every_mode, .to = ARRAY_SIZE(harmless))
{
        rule_check(&harmless[_i], never);
}

TEST(a_refused_thing_keeps_being_refused)
{
        (void)contract_context();
        world_new();
        ck_ok(cu.cuStreamBeginCapture(capturing, CU_STREAM_CAPTURE_MODE_GLOBAL));
        ck_ok(cu.cuEventRecord(captured, capturing));
        ck_cuda(REFUSED, own_wait());
        ck_cuda(REFUSED, own_wait());
        ck_cuda(REFUSED, alloc());
        ck_cuda(CUDA_ERROR_INVALID_VALUE, captured_query());
        ck_cuda(CUDA_ERROR_INVALID_VALUE, cu.cuStreamWaitEvent(other, captured, 0));
        ck_cuda(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, wait_for_outside());
        capture_is_lost();
        ck_ok(alloc());
}

TEST(a_threads_mode_is_exchanged)
{
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED, wrong = (CUstreamCaptureMode)7;

        contract_init();
        ck_ok(cu.cuThreadExchangeStreamCaptureMode(&mode));
        ck_assert_int_eq(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
        mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        ck_ok(cu.cuThreadExchangeStreamCaptureMode(&mode));
        ck_assert_int_eq(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
        ck_ok(cu.cuThreadExchangeStreamCaptureMode(&wrong));
        ck_assert_int_eq(wrong, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
        ck_ok(cu.cuThreadExchangeStreamCaptureMode(&mode));
}

/* Its context may be asked for, as long as the capture is not lost; its id not, whatever the thread's mode. */
TEST(a_stream_that_captures_has_no_id)
{
        CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
        unsigned long long id;
        CUcontext context;

        (void)contract_context();
        world_new();
        ck_ok(cu.cuThreadExchangeStreamCaptureMode(&relaxed));
        ck_ok(cu.cuStreamBeginCapture(capturing, CU_STREAM_CAPTURE_MODE_RELAXED));
        ck_ok(cu.cuStreamGetCtx(capturing, &context));
        ck_cuda(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuStreamGetId(capturing, &id));
        ck_cuda(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu.cuStreamGetCtx(capturing, &context));
        ck_cuda(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu.cuStreamEndCapture(capturing, &graph));
        ck_ok(cu.cuStreamGetId(capturing, &id));
}

TEST(no_time_is_measured_in_a_capture)
{
        (void)contract_context();
        world_new();
        ck_ok(cu.cuStreamBeginCapture(capturing, CU_STREAM_CAPTURE_MODE_GLOBAL));
        ck_ok(cu.cuEventRecord(outside, capturing));
        ck_cuda(CUDA_ERROR_CAPTURED_EVENT, elapsed());
        capture_survives();
}

CONTRACT_MAIN("rules")
