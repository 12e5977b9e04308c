/* SPDX-License-Identifier: Apache-2.0 */
/* The emulated driver's honesty: what the CPU may not touch, what spoils a context, what order
 * means, and what becomes of handles. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/contract/contract.h"

#define NONE    CU_MEM_HANDLE_TYPE_NONE
#define GRANULE CONTRACT_GRANULE
#define INVALID CUDA_ERROR_INVALID_VALUE
#define ILLEGAL CUDA_ERROR_ILLEGAL_ADDRESS
#define STALE   CUDA_ERROR_INVALID_HANDLE

static unsigned char *pinned(void)
{
        void *bytes;

        ck_ok(cu.cuMemHostAlloc(&bytes, GRANULE, 0));
        memset(bytes, 0, GRANULE);
        return bytes;
}

/* How a process ends that reads or writes there. */
static int touch(CUdeviceptr address, int write)
{
        volatile char *byte = (volatile char *)(uintptr_t)address;
        pid_t child = fork();
        int status;

        if (child == 0) {
                (void)signal(SIGSEGV, SIG_DFL);
                if (write)
                        *byte = 1;
                else
                        (void)*byte;
                _exit(EXIT_SUCCESS);
        }
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST(the_cpu_cannot_touch_device_memory)
{
        struct contract_block block;
        CUdeviceptr address;

        (void)contract_context();
        block = contract_map(contract_create(GRANULE, NONE), GRANULE);
        ck_assert_int_eq(touch(block.address, 0), SIGSEGV);
        ck_assert_int_eq(touch(block.address + GRANULE - 1, 1), SIGSEGV);
        ck_ok(cu.cuMemUnmap(block.address, GRANULE));
        ck_assert_int_eq(touch(block.address, 0), SIGSEGV);
        ck_ok(cu.cuMemAlloc(&address, GRANULE));
        ck_assert_int_eq(touch(address, 0), SIGSEGV);
}

TEST(the_cpu_touches_host_memory_once_it_has_access)
{
        CUmemAllocationProp properties = contract_properties(NONE);
        CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 0},
                                  .flags = CU_MEM_ACCESS_FLAGS_PROT_READ};
        CUmemGenericAllocationHandle handle;
        struct contract_block block;

        contract_init();
        properties.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
        ck_ok(cu.cuMemCreate(&handle, GRANULE, &properties, 0));
        block = contract_map(handle, GRANULE);
        ck_assert_int_eq(touch(block.address, 0), SIGSEGV);
        ck_ok(cu.cuMemSetAccess(block.address, GRANULE, &access, 1));
        ck_assert_int_eq(touch(block.address, 0), 0);
        ck_assert_int_eq(touch(block.address, 1), SIGSEGV);
        ck_ok(cu.cuMemUnmap(block.address, GRANULE));
        ck_assert_int_eq(touch(block.address, 0), SIGSEGV);
        block = contract_map(contract_create(GRANULE, NONE), GRANULE);
        ck_cuda(CUDA_ERROR_INVALID_VALUE, cu.cuMemSetAccess(block.address, GRANULE, &access, 1));
}

/* All that reports a spoilt context does so, again and again; the rest goes on. */
static void check_spoilt(void)
{
        CUdeviceptr address;
        CUstream stream;
        CUevent event;
        size_t n_free, n_total;
        char byte;

        for (int i = 0; i < 2; i++) {
                ck_cuda(ILLEGAL, cu.cuCtxSynchronize());
                ck_cuda(ILLEGAL, cu.cuMemAlloc(&address, GRANULE));
                ck_cuda(ILLEGAL, cu.cuMemGetInfo(&n_free, &n_total));
                ck_cuda(ILLEGAL, cu.cuStreamCreate(&stream, 0));
                ck_cuda(ILLEGAL, cu.cuEventCreate(&event, 0));
                ck_cuda(ILLEGAL, cu.cuStreamQuery(NULL));
                ck_cuda(ILLEGAL, cu.cuMemHostRegister(&byte, 1, 0));
        }
        ck_ok(cu.cuMemRelease(contract_create(GRANULE, NONE)));
}

TEST(a_copy_to_nothing_is_refused)
{
        CUdeviceptr empty;
        char byte = 1;

        (void)contract_context();
        ck_ok(cu.cuMemAddressReserve(&empty, GRANULE, 0, 0, 0));
        ck_cuda(INVALID, cu.cuMemcpyHtoD(empty, &byte, 1));
        ck_ok(cu.cuCtxSynchronize());
}

TEST(a_copy_without_access_is_refused)
{
        struct contract_block block;
        char byte;

        (void)contract_context();
        block = contract_map(contract_create(GRANULE, NONE), GRANULE);
        contract_write(block.address, 1);
        ck_ok(contract_set_access(block.address, GRANULE, CU_MEM_ACCESS_FLAGS_PROT_READ));
        ck_ok(cu.cuMemcpyDtoH(&byte, block.address, 1));
        ck_cuda(INVALID, cu.cuMemsetD8(block.address, 1, 1));
        ck_ok(cu.cuMemcpyDtoH(&byte, block.address, 1));
        ck_assert_int_eq(byte, 1);
}

TEST(a_copy_past_the_end_is_refused)
{
        struct contract_block block;
        CUdeviceptr address;

        (void)contract_context();
        block = contract_map(contract_create(GRANULE, NONE), GRANULE);
        ck_ok(cu.cuMemAddressReserve(&address, GRANULE, 0, block.address + GRANULE, 0));
        ck_cuda(INVALID, cu.cuMemsetD8(block.address + GRANULE - 16, 1, 32));
        ck_ok(cu.cuCtxSynchronize());
        ck_assert_uint_eq(contract_read(block.address + GRANULE - 1), 0);
}

/* Of what is unmapped before it comes about; the stream is held up. */
static void fill_what_goes(CUstream stream)
{
        struct contract_block block = contract_map(contract_create(GRANULE, NONE), GRANULE);

        ck_ok(cu.cuMemsetD8Async(block.address, 1, 64, stream));
        ck_ok(cu.cuMemUnmap(block.address, GRANULE));
}

TEST(freed_addresses_are_refused_and_never_crash)
{
        CUdeviceptr address, other;
        char byte;

        (void)contract_context();
        ck_ok(cu.cuMemAlloc(&address, GRANULE));
        ck_ok(cu.cuMemAlloc(&other, GRANULE));
        ck_ok(cu.cuMemFree(address));
        ck_cuda(INVALID, cu.cuMemcpy(other, address, 16));
        ck_cuda(INVALID, cu.cuMemcpyDtoH(&byte, address, 1));
        ck_ok(cu.cuCtxSynchronize());
}

TEST(a_late_fault_shows_at_the_next_look)
{
        struct contract_gate gate;
        CUstream stream, other;
        CUcontext second;
        CUevent event;

        (void)contract_context();
        stream = contract_stream(CU_STREAM_NON_BLOCKING);
        other = contract_stream(CU_STREAM_NON_BLOCKING);
        event = contract_event(0);
        contract_hold(stream, &gate);
        fill_what_goes(stream);
        ck_ok(cu.cuEventRecord(event, stream));
        ck_ok(cu.cuStreamQuery(other));
        contract_open(&gate);
        ck_cuda(ILLEGAL, cu.cuStreamSynchronize(stream));
        ck_cuda(ILLEGAL, cu.cuStreamQuery(other));
        ck_cuda(ILLEGAL, cu.cuEventQuery(event));
        ck_cuda(ILLEGAL, cu.cuEventSynchronize(event));
        check_spoilt();
        /* Another device's context is none the worse. */
        ck_ok(cu.cuDevicePrimaryCtxRetain(&second, 1));
        ck_ok(cu.cuCtxSetCurrent(second));
        ck_ok(cu.cuCtxSynchronize());
        ck_ok(cu.cuDevicePrimaryCtxRelease(0));
        (void)contract_context();
        ck_ok(cu.cuCtxSynchronize());
}

TEST(access_is_each_device_s_own)
{
        CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1},
                                  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        struct contract_block block;
        CUcontext second;
        char byte = 4;

        (void)contract_context();
        block = contract_map(contract_create(GRANULE, NONE), GRANULE);
        contract_write(block.address, 8);
        ck_ok(cu.cuDevicePrimaryCtxRetain(&second, 1));
        ck_ok(cu.cuCtxSetCurrent(second));
        ck_ok(cu.cuMemSetAccess(block.address, GRANULE, &access, 1));
        ck_ok(cu.cuMemcpyDtoH(&byte, block.address, 1));
        ck_assert_int_eq(byte, 8);
        access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
        ck_ok(cu.cuMemSetAccess(block.address, GRANULE, &access, 1));
        ck_cuda(INVALID, cu.cuMemcpyDtoH(&byte, block.address, 1));
}

TEST(a_wrong_order_gives_wrong_bytes)
{
        CUstream writer, reader;
        struct contract_gate gate;
        unsigned char *bytes;
        CUdeviceptr address;
        CUevent event;

        (void)contract_context();
        writer = contract_stream(CU_STREAM_NON_BLOCKING);
        reader = contract_stream(CU_STREAM_NON_BLOCKING);
        bytes = pinned();
        event = contract_event(CU_EVENT_DISABLE_TIMING);
        ck_ok(cu.cuMemAlloc(&address, GRANULE));
        ck_ok(cu.cuMemsetD8(address, 1, GRANULE));
        contract_hold(writer, &gate);
        ck_ok(cu.cuMemsetD8Async(address, 2, GRANULE, writer));
        ck_ok(cu.cuEventRecord(event, writer));
        ck_ok(cu.cuMemcpyDtoHAsync(bytes, address, 1, reader));
        ck_ok(cu.cuStreamSynchronize(reader));
        ck_ok(cu.cuStreamWaitEvent(reader, event, 0));
        ck_ok(cu.cuMemcpyDtoHAsync(bytes + 1, address, 1, reader));
        contract_open(&gate);
        ck_ok(cu.cuStreamSynchronize(reader));
        ck_assert_uint_eq(bytes[0], 1);
        ck_assert_uint_eq(bytes[1], 2);
}

TEST(memory_reused_too_early_is_overwritten)
{
        struct contract_block block;
        struct contract_gate gate;
        unsigned char *bytes;
        CUstream stream;

        (void)contract_context();
        stream = contract_stream(CU_STREAM_NON_BLOCKING);
        bytes = pinned();
        block = contract_map(contract_create(GRANULE, NONE), GRANULE);
        ck_ok(cu.cuMemsetD8(block.address, 1, GRANULE));
        contract_hold(stream, &gate);
        ck_ok(cu.cuMemcpyDtoHAsync(bytes, block.address, 1, stream));
        /* The same address, other memory, while the copy has yet to run. */
        ck_ok(cu.cuMemUnmap(block.address, GRANULE));
        ck_ok(cu.cuMemMap(block.address, GRANULE, 0, contract_create(GRANULE, NONE), 0));
        ck_ok(contract_set_access(block.address, GRANULE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
        bytes[0] = 9;
        contract_open(&gate);
        ck_ok(cu.cuStreamSynchronize(stream));
        ck_assert_uint_eq(bytes[0], 0);
}

TEST(synchronising_the_default_stream_waits_for_blocking_ones)
{
        struct contract_gate gate;
        CUstream stream;

        (void)contract_context();
        stream = contract_stream(CU_STREAM_DEFAULT);
        contract_hold(stream, &gate);
        ck_cuda(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(NULL));
        contract_await(&gate);
        contract_open_later(&gate);
        ck_ok(cu.cuStreamSynchronize(NULL));
        ck_ok(cu.cuStreamQuery(stream));
}

TEST(stream_handles_are_used_again_at_once)
{
        unsigned long long first_id, second_id;
        struct contract_gate gate;
        CUstream first, second;
        CUdeviceptr address;

        (void)contract_context();
        ck_ok(cu.cuMemAlloc(&address, GRANULE));
        first = contract_stream(CU_STREAM_NON_BLOCKING);
        ck_ok(cu.cuStreamGetId(first, &first_id));
        contract_hold(first, &gate);
        ck_ok(cu.cuMemsetD8Async(address, 0x77, GRANULE, first));
        ck_ok(cu.cuStreamDestroy(first));
        second = contract_stream(CU_STREAM_NON_BLOCKING);
        ck_assert_ptr_eq(first, second);
        ck_ok(cu.cuStreamGetId(second, &second_id));
        ck_assert_uint_ne(first_id, second_id);
        /* The new stream has none of the old one's work. */
        ck_ok(cu.cuStreamQuery(second));
        contract_open(&gate);
        ck_ok(cu.cuCtxSynchronize());
        ck_assert_uint_eq(contract_read(address), 0x77);
}

TEST(stale_and_invented_handles_are_found_out)
{
        CUstream stream, invented = (CUstream)(uintptr_t)0xDEADBEEF000;
        CUevent event;

        (void)contract_context();
        stream = contract_stream(CU_STREAM_NON_BLOCKING);
        event = contract_event(0);
        ck_ok(cu.cuStreamDestroy(stream));
        ck_ok(cu.cuEventDestroy(event));
        ck_cuda(STALE, cu.cuStreamDestroy(stream));
        ck_cuda(STALE, cu.cuEventRecord(event, NULL));
        ck_cuda(STALE, cu.cuEventQuery(event));
        ck_cuda(STALE, cu.cuEventSynchronize(event));
        ck_cuda(STALE, cu.cuEventDestroy(event));
        ck_cuda(STALE, cu.cuStreamQuery(invented));
        ck_cuda(STALE, cu.cuStreamQuery((CUstream)((uintptr_t)contract_stream(0) + 0x1000)));
        ck_cuda(STALE, cu.cuStreamQuery((CUstream)(uintptr_t)7));
        ck_cuda(STALE, cu.cuEventQuery((CUevent)invented));
        ck_cuda(STALE, cu.cuEventQuery((CUevent)contract_stream(0)));
        ck_cuda(CUDA_ERROR_INVALID_CONTEXT, cu.cuCtxSetCurrent((CUcontext)invented));
}

static void *own_id(void *argument)
{
        static unsigned long long ids[2];
        static int n;
        unsigned long long *id = &ids[__atomic_fetch_add(&n, 1, __ATOMIC_RELAXED)];

        ck_ok(cu.cuCtxSetCurrent(argument));
        ck_ok(cu.cuStreamGetId(CU_STREAM_PER_THREAD, id));
        return id;
}

TEST(every_thread_has_a_stream_of_its_own)
{
        CUcontext context = contract_context();
        unsigned long long mine, again;
        pthread_t threads[2];
        void *theirs[2];

        ck_ok(cu.cuStreamGetId(CU_STREAM_PER_THREAD, &mine));
        ck_ok(cu.cuStreamGetId(CU_STREAM_PER_THREAD, &again));
        ck_assert_uint_eq(mine, again);
        for (int i = 0; i < 2; i++) {
                ck_assert_int_eq(pthread_create(&threads[i], NULL, own_id, context), 0);
                ck_assert_int_eq(pthread_join(threads[i], &theirs[i]), 0);
        }
        ck_assert_uint_ne(mine, *(unsigned long long *)theirs[0]);
        ck_assert_uint_ne(mine, *(unsigned long long *)theirs[1]);
        ck_assert_uint_ne(*(unsigned long long *)theirs[0], *(unsigned long long *)theirs[1]);
}

TEST(a_spoilt_context_runs_nothing_more)
{
        unsigned char *bytes;
        CUdeviceptr address;
        CUstream stream;
        struct contract_gate gate;

        (void)contract_context();
        bytes = pinned();
        stream = contract_stream(CU_STREAM_NON_BLOCKING);
        ck_ok(cu.cuMemAlloc(&address, GRANULE));
        ck_ok(cu.cuMemsetD8(address, 3, GRANULE));
        contract_hold(stream, &gate);
        fill_what_goes(stream);
        ck_ok(cu.cuMemcpyDtoHAsync(bytes, address, 1, stream));
        contract_open(&gate);
        ck_cuda(ILLEGAL, cu.cuStreamSynchronize(stream));
        ck_assert_uint_eq(bytes[0], 0);
}

CONTRACT_MAIN("emulator_stream")
