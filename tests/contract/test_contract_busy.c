/* SPDX-License-Identifier: Apache-2.0 */
/* What calls about memory do beside work that runs, and to it. */
#include <sys/mman.h>

#include "base/err.h"
#include "tests/contract/contract.h"

#define GRANULE CONTRACT_GRANULE
#define NONE    CU_MEM_HANDLE_TYPE_NONE
#define N_BYTES ((size_t)1 << 20)

static void device_memory(void)
{
        struct contract_block block = contract_map(contract_create(GRANULE, NONE), GRANULE);

        contract_unmap(&block);
        ck_ok(cu.cuMemRelease(block.handle));
}

static void host_memory(void)
{
        CUmemAllocationProp properties = contract_properties(NONE);
        CUmemGenericAllocationHandle handle;
        struct contract_block block;

        properties.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
        ck_ok(cu.cuMemCreate(&handle, GRANULE, &properties, 0));
        block = contract_map(handle, GRANULE);
        contract_unmap(&block);
        ck_ok(cu.cuMemRelease(handle));
}

static void *registered;

static void *pages(void)
{
        void *bytes = mmap(NULL, N_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                           0);

        ck_assert_ptr_ne(bytes, MAP_FAILED);
        return bytes;
}

static void registration(void)
{
        ck_ok(cu.cuMemHostRegister(pages(), N_BYTES, CU_MEMHOSTREGISTER_PORTABLE));
}

static void allocation(void)
{
        CUdeviceptr address;

        ck_ok(cu.cuMemAlloc(&address, N_BYTES));
}

static void (*const calls[])(void) = {device_memory, host_memory, registration, allocation};

/* That a mapping has gone does not tell that nothing uses it. */
TEST(nothing_but_the_end_of_registered_and_allocated_memory_waits_for_work, .to = ARRAY_SIZE(calls))
{
        struct contract_gate gate;
        CUstream stream = contract_stream(CU_STREAM_NON_BLOCKING);

        contract_hold(stream, &gate);
        contract_await(&gate);
        calls[_i]();
        ck_cuda(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(stream));
        contract_open(&gate);
        ck_ok(cu.cuStreamSynchronize(stream));
}

/* Of the same context, that is; every later call tells of it, and an event's work is over. */
TEST(work_on_what_was_unmapped_spoils_the_context)
{
        struct contract_block block;
        struct contract_gate gate;
        CUstream stream;
        CUevent event;

        (void)contract_context();
        block = contract_map(contract_create(GRANULE, NONE), GRANULE);
        stream = contract_stream(CU_STREAM_NON_BLOCKING);
        event = contract_event(CU_EVENT_DISABLE_TIMING);
        contract_hold(stream, &gate);
        ck_ok(cu.cuMemsetD8Async(block.address, 1, GRANULE, stream));
        ck_ok(cu.cuEventRecord(event, stream));
        contract_await(&gate);
        ck_ok(cu.cuMemUnmap(block.address, GRANULE));
        ck_cuda(CUDA_ERROR_NOT_READY, cu.cuEventQuery(event));
        contract_open(&gate);
        ck_cuda(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuStreamSynchronize(stream));
        ck_cuda(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuEventQuery(event));
}

static CUcontext destroyed(void)
{
        CUcontext primary = contract_context(), created;

        ck_ok(cu.cuCtxCreate(&created, NULL, 0, 0));
        ck_ok(cu.cuCtxDestroy(created));
        ck_ok(cu.cuCtxSetCurrent(primary));
        return created;
}

/* A primary context, with the last hold on it. */
static CUcontext released(void)
{
        CUcontext primary = contract_context();

        registered = pages();
        ck_ok(cu.cuMemHostRegister(registered, N_BYTES, CU_MEMHOSTREGISTER_PORTABLE));
        ck_ok(cu.cuCtxSetCurrent(NULL));
        ck_ok(cu.cuDevicePrimaryCtxRelease(0));
        return primary;
}

static CUcontext (*const ends[])(void) = {destroyed, released};

/* The library asks this before it makes a context current that its own program may have ended: with one that was
 * destroyed a driver may crash then. */
TEST(a_context_that_has_ended_says_so, .to = ARRAY_SIZE(ends))
{
        CUcontext ended = ends[_i]();
        unsigned long long id;
        unsigned version = 0;

        ck_cuda(CUDA_ERROR_INVALID_CONTEXT, cu.cuCtxGetApiVersion(ended, &version));
        ck_cuda(CUDA_ERROR_CONTEXT_IS_DESTROYED, cu.cuCtxGetId(ended, &id));
        ck_ok(cu.cuCtxGetApiVersion(contract_context(), &version));
        ck_assert_uint_gt(version, 0);
}

static CUresult register_more(void)
{
        return cu.cuMemHostRegister(pages(), N_BYTES, 0);
}

static CUresult unregister(void)
{
        return cu.cuMemHostUnregister(registered);
}

static CUresult synchronize(void)
{
        return cu.cuCtxSynchronize();
}

static CUresult (*const in_vain[])(void) = {register_more, unregister, synchronize};

TEST(a_primary_context_that_was_released_takes_no_calls, .to = ARRAY_SIZE(in_vain))
{
        ck_ok(cu.cuCtxSetCurrent(released()));
        ck_cuda(CUDA_ERROR_CONTEXT_IS_DESTROYED, in_vain[_i]());
}

CONTRACT_MAIN("busy")
