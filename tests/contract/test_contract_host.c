/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory: registered, allocated, and seen by the device. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/contract/contract.h"

#define INVALID CUDA_ERROR_INVALID_VALUE
#define N_BYTES ((size_t)1 << 20)
#define PAGE    4096
#define FLAGS   (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP)

static unsigned char *pages(size_t n_bytes)
{
        void *bytes = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                           0);

        ck_assert_ptr_ne(bytes, MAP_FAILED);
        return bytes;
}

TEST(registered_memory_has_a_device_address)
{
        unsigned char *bytes = pages(N_BYTES);
        CUdeviceptr address = 0;

        (void)contract_context();
        ck_ok(cu.cuMemHostRegister(bytes, N_BYTES, FLAGS));
        ck_ok(cu.cuMemHostGetDevicePointer(&address, bytes, 0));
        ck_assert_uint_eq(address, (uintptr_t)bytes);
        ck_ok(cu.cuMemHostGetDevicePointer(&address, bytes + 100, 0));
        ck_assert_uint_eq(address, (uintptr_t)bytes + 100);
        ck_cuda(INVALID, cu.cuMemHostGetDevicePointer(&address, bytes, 1));
        ck_ok(cu.cuMemHostUnregister(bytes));
        ck_cuda(INVALID, cu.cuMemHostGetDevicePointer(&address, bytes, 0));
}

TEST(memory_is_registered_once)
{
        unsigned char *bytes = pages(2 * N_BYTES);

        (void)contract_context();
        ck_ok(cu.cuMemHostRegister(bytes, N_BYTES, FLAGS));
        ck_cuda(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
                cu.cuMemHostRegister(bytes, N_BYTES, FLAGS));
        ck_cuda(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
                cu.cuMemHostRegister(bytes + N_BYTES - PAGE, N_BYTES, FLAGS));
        ck_ok(cu.cuMemHostRegister(bytes + N_BYTES, N_BYTES, FLAGS));
        ck_ok(cu.cuMemHostUnregister(bytes));
        ck_ok(cu.cuMemHostRegister(bytes, N_BYTES, FLAGS));
}

TEST(register_and_unregister_refuse)
{
        unsigned char *bytes = pages(N_BYTES), *gone = pages(N_BYTES);

        (void)contract_context();
        ck_assert_int_eq(munmap(gone, N_BYTES), 0);
        ck_cuda(INVALID, cu.cuMemHostRegister(NULL, N_BYTES, FLAGS));
        ck_cuda(INVALID, cu.cuMemHostRegister(bytes, 0, FLAGS));
        ck_cuda(INVALID, cu.cuMemHostRegister(gone, N_BYTES, FLAGS));
        ck_cuda(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cu.cuMemHostUnregister(bytes));
        ck_ok(cu.cuMemHostRegister(bytes, N_BYTES, FLAGS));
        ck_ok(cu.cuMemHostUnregister(bytes));
        ck_cuda(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cu.cuMemHostUnregister(bytes));
}

/* Freeing the same memory twice is left out: the driver may call it a success. */
TEST(host_memory_is_allocated_and_freed)
{
        unsigned char local = 0;
        CUdeviceptr address;
        void *bytes = NULL;

        (void)contract_context();
        ck_ok(cu.cuMemHostAlloc(&bytes, N_BYTES, CU_MEMHOSTALLOC_PORTABLE));
        memset(bytes, 0x3C, N_BYTES);
        ck_ok(cu.cuMemHostGetDevicePointer(&address, bytes, 0));
        ck_assert_uint_eq(address, (uintptr_t)bytes);
        ck_cuda(INVALID, cu.cuMemHostAlloc(&bytes, N_BYTES, 0x100));
        ck_cuda(INVALID, cu.cuMemFreeHost(&local));
        ck_ok(cu.cuMemFreeHost(bytes));
}

/* Whatever was asked for. */
TEST(host_memory_is_mapped_for_devices)
{
        static unsigned char bytes[4096];
        unsigned flags = 0;
        void *host;

        (void)contract_context();
        ck_ok(cu.cuMemAllocHost(&host, 4096));
        ck_ok(cu.cuMemHostGetFlags(&flags, host));
        ck_assert_uint_ne(flags & CU_MEMHOSTALLOC_DEVICEMAP, 0);
        ck_ok(cu.cuMemFreeHost(host));
        ck_ok(cu.cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
        ck_ok(cu.cuMemHostGetFlags(&flags, host));
        ck_assert_uint_ne(flags & CU_MEMHOSTALLOC_DEVICEMAP, 0);
        ck_cuda(INVALID, cu.cuMemHostGetFlags(&flags, bytes));
        ck_ok(cu.cuMemHostRegister(bytes, sizeof(bytes), 0));
        ck_ok(cu.cuMemHostGetFlags(&flags, bytes));
        ck_assert_uint_ne(flags & CU_MEMHOSTALLOC_DEVICEMAP, 0);
}

TEST(attributes_of_host_memory)
{
        unsigned char *bytes = pages(N_BYTES);
        unsigned int type = 0;
        void *host = NULL;
        CUdeviceptr address;
        CUdeviceptr device = 0;

        (void)contract_context();
        address = (CUdeviceptr)(uintptr_t)bytes;
        ck_cuda(INVALID,
                cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
        ck_ok(cu.cuMemHostRegister(bytes, N_BYTES, FLAGS));
        ck_ok(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
        ck_assert_uint_eq(type, CU_MEMORYTYPE_HOST);
        ck_ok(cu.cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, address + 8));
        ck_assert_ptr_eq(host, bytes + 8);
        ck_ok(cu.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, address + 8));
        ck_assert_uint_eq(device, address + 8);
        ck_ok(cu.cuMemHostUnregister(bytes));
}

TEST(host_memory_of_the_virtual_interface_is_host_memory)
{
        CUmemAllocationProp properties = contract_properties(CU_MEM_HANDLE_TYPE_NONE);
        CUmemGenericAllocationHandle handle;
        struct contract_block block;
        unsigned int type = 0;

        (void)contract_context();
        properties.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
        ck_ok(cu.cuMemCreate(&handle, CONTRACT_GRANULE, &properties, 0));
        block = contract_map(handle, CONTRACT_GRANULE);
        ck_ok(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block.address));
        ck_assert_uint_eq(type, CU_MEMORYTYPE_HOST);
}

TEST(a_pinned_source_is_read_when_the_copy_runs)
{
        unsigned char *bytes = pages(N_BYTES);
        struct contract_gate gate;
        CUstream stream;
        CUdeviceptr address = contract_alloc(N_BYTES);

        ck_ok(cu.cuMemHostRegister(bytes, N_BYTES, FLAGS));
        stream = contract_stream(CU_STREAM_NON_BLOCKING);
        bytes[7] = 1;
        contract_hold(stream, &gate);
        ck_ok(cu.cuMemcpyHtoDAsync(address, bytes, 4096, stream));
        bytes[7] = 2;
        contract_open(&gate);
        ck_ok(cu.cuStreamSynchronize(stream));
        ck_assert_uint_eq(contract_read(address + 7), 2);
}

TEST(a_small_pageable_source_is_read_by_the_call)
{
        unsigned char *bytes = malloc(4096);
        struct contract_gate gate;
        CUdeviceptr address = contract_alloc(N_BYTES);
        CUstream stream = contract_stream(CU_STREAM_NON_BLOCKING);

        memset(bytes, 1, 4096);
        contract_hold(stream, &gate);
        ck_ok(cu.cuMemcpyHtoDAsync(address, bytes, 4096, stream));
        memset(bytes, 2, 4096);
        contract_open(&gate);
        ck_ok(cu.cuStreamSynchronize(stream));
        ck_assert_uint_eq(contract_read(address + 7), 1);
        free(bytes);
}

TEST(copies_take_registered_memory_as_the_devices)
{
        unsigned char *bytes = pages(N_BYTES);
        CUdeviceptr host;
        CUdeviceptr address = contract_alloc(N_BYTES);

        ck_ok(cu.cuMemHostRegister(bytes, N_BYTES, FLAGS));
        ck_ok(cu.cuMemHostGetDevicePointer(&host, bytes, 0));
        memset(bytes, 0x51, N_BYTES);
        ck_ok(cu.cuMemcpyDtoD(address, host, N_BYTES));
        ck_assert_uint_eq(contract_read(address + N_BYTES - 1), 0x51);
        ck_ok(cu.cuMemsetD8(host + 3, 0x52, 2));
        ck_ok(cu.cuCtxSynchronize());
        ck_assert_uint_eq(bytes[2], 0x51);
        ck_assert_uint_eq(bytes[3], 0x52);
        ck_assert_uint_eq(bytes[5], 0x51);
}

static void memfd_writer(int socket)
{
        int fd = contract_receive(socket, 'm');
        void *bytes = mmap(NULL, N_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        CUdeviceptr address;

        ck_assert_ptr_ne(bytes, MAP_FAILED);
        (void)contract_context();
        address = contract_alloc(N_BYTES);
        ck_ok(cu.cuMemHostRegister(bytes, N_BYTES, FLAGS));
        ck_ok(cu.cuMemsetD8(address, 0x77, N_BYTES));
        ck_ok(cu.cuMemcpyDtoH(bytes, address, N_BYTES));
        contract_send(socket, 'w', -1);
}

TEST(two_processes_register_one_memfd)
{
        struct contract_peer other = contract_start(memfd_writer);
        int fd = memfd_create("pinned", MFD_CLOEXEC);
        CUdeviceptr address;
        void *bytes;

        ck_assert_int_eq(ftruncate(fd, (off_t)N_BYTES), 0);
        bytes = mmap(NULL, N_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        ck_assert_ptr_ne(bytes, MAP_FAILED);
        (void)contract_context();
        ck_ok(cu.cuMemHostRegister(bytes, N_BYTES, FLAGS));
        contract_send(other.socket, 'm', fd);
        (void)contract_receive(other.socket, 'w');
        address = contract_alloc(N_BYTES);
        ck_ok(cu.cuMemcpyHtoD(address, bytes, N_BYTES));
        ck_assert_uint_eq(contract_read(address + N_BYTES - 1), 0x77);
        contract_finish(&other);
}

TEST(a_stream_waits_for_a_word_and_writes_one)
{
        uint64_t *words = (void *)pages(PAGE);
        CUdeviceptr address;
        CUstream stream;
        int n_looks = 0;
        CUdeviceptr memory = contract_alloc(4096);

        ck_ok(cu.cuMemHostRegister(words, PAGE, FLAGS));
        ck_ok(cu.cuMemHostGetDevicePointer(&address, words, 0));
        stream = contract_stream(CU_STREAM_NON_BLOCKING);
        ck_ok(cu.cuStreamWaitValue64(stream, address, 5, CU_STREAM_WAIT_VALUE_GEQ));
        ck_ok(cu.cuMemsetD8Async(memory, 0x66, 16, stream));
        ck_ok(cu.cuStreamWriteValue64(stream, address + 8, 42, 0));
        ck_cuda(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(stream));
        ck_assert_uint_eq(__atomic_load_n(&words[1], __ATOMIC_ACQUIRE), 0);
        __atomic_store_n(&words[0], 6, __ATOMIC_RELEASE);
        while (__atomic_load_n(&words[1], __ATOMIC_ACQUIRE) != 42)
                contract_pause(&n_looks);
        ck_assert_uint_eq(contract_read(memory), 0x66);
        ck_cuda(INVALID, cu.cuStreamWaitValue64(stream, address + 4, 1, 0));
}

/* A registered memfd of two processes: the words that order their streams, and bytes. */
struct shared {
        uint64_t turn;
        uint64_t done;
        unsigned char source[64];
        unsigned char target[64];
};

static CUdeviceptr shared_map(int fd, struct shared **ret_shared)
{
        void *bytes = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        CUdeviceptr address;

        ck_assert_ptr_ne(bytes, MAP_FAILED);
        ck_ok(cu.cuMemHostRegister(bytes, PAGE, FLAGS));
        ck_ok(cu.cuMemHostGetDevicePointer(&address, bytes, 0));
        *ret_shared = bytes;
        return address;
}

/* A word that never comes would block cuStreamSynchronize for good. */
static void synchronise(CUstream stream)
{
        int n_looks = 0;
        CUresult result;

        while ((result = cu.cuStreamQuery(stream)) == CUDA_ERROR_NOT_READY)
                contract_pause(&n_looks);
        ck_ok(result);
}

/* Queues all its work before its turn comes. The bytes go by way of the device: a copy from host
 * to host memory, however it is called, returns when it is done, and would wait for its turn. */
static void second_in_turn(int socket)
{
        int fd = contract_receive(socket, 'm');
        CUdeviceptr address;
        struct shared *shared;
        CUstream stream;
        CUdeviceptr memory = contract_alloc(N_BYTES);

        address = shared_map(fd, &shared);
        stream = contract_stream(CU_STREAM_NON_BLOCKING);
        ck_ok(cu.cuStreamWaitValue64(stream, address + offsetof(struct shared, turn), 1,
                                     CU_STREAM_WAIT_VALUE_GEQ));
        ck_ok(cu.cuMemcpyHtoDAsync(memory, shared->source, sizeof(shared->source), stream));
        ck_ok(cu.cuMemcpyDtoHAsync(shared->target, memory, sizeof(shared->target), stream));
        ck_ok(cu.cuStreamWriteValue64(stream, address + offsetof(struct shared, done), 1, 0));
        ck_cuda(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(stream));
        contract_send(socket, 'q', -1);
        synchronise(stream);
        contract_send(socket, 'd', -1);
}

TEST(words_order_streams_of_two_processes)
{
        struct contract_peer other = contract_start(second_in_turn);
        int fd = memfd_create("words", MFD_CLOEXEC);
        CUdeviceptr address, memory;
        struct contract_gate gate;
        struct shared *shared;
        CUstream stream;

        ck_assert_int_eq(ftruncate(fd, PAGE), 0);
        (void)contract_context();
        memory = contract_alloc(N_BYTES);
        address = shared_map(fd, &shared);
        ck_ok(cu.cuMemsetD8(memory, 0x31, sizeof(shared->source)));
        ck_ok(cu.cuCtxSynchronize());
        stream = contract_stream(CU_STREAM_NON_BLOCKING);
        contract_hold(stream, &gate);
        ck_ok(cu.cuMemcpyDtoHAsync(shared->source, memory, sizeof(shared->source), stream));
        ck_ok(cu.cuMemsetD8Async(memory, 0, sizeof(shared->source), stream));
        ck_ok(cu.cuStreamWriteValue64(stream, address + offsetof(struct shared, turn), 1, 0));
        ck_ok(cu.cuStreamWaitValue64(stream, address + offsetof(struct shared, done), 1,
                                     CU_STREAM_WAIT_VALUE_GEQ));
        ck_ok(cu.cuMemcpyHtoDAsync(memory, shared->target, sizeof(shared->target), stream));
        contract_send(other.socket, 'm', fd);
        (void)contract_receive(other.socket, 'q');
        ck_assert_uint_eq(__atomic_load_n(&shared->turn, __ATOMIC_ACQUIRE), 0);
        contract_open(&gate);
        synchronise(stream);
        ck_assert_uint_eq(contract_read(memory + sizeof(shared->target) - 1), 0x31);
        ck_assert_uint_eq(__atomic_load_n(&shared->done, __ATOMIC_ACQUIRE), 1);
        (void)contract_receive(other.socket, 'd');
        contract_finish(&other);
}

TEST(unregister_waits_for_running_work)
{
        unsigned char *bytes = pages(N_BYTES);
        struct contract_gate gate;
        CUstream stream;
        CUdeviceptr address = contract_alloc(N_BYTES);

        ck_ok(cu.cuMemHostRegister(bytes, N_BYTES, FLAGS));
        stream = contract_stream(CU_STREAM_NON_BLOCKING);
        ck_ok(cu.cuMemsetD8(address, 0x29, N_BYTES));
        contract_hold(stream, &gate);
        ck_ok(cu.cuMemcpyDtoHAsync(bytes, address, N_BYTES, stream));
        contract_await(&gate);
        contract_open_later(&gate);
        ck_ok(cu.cuMemHostUnregister(bytes));
        ck_ok(cu.cuStreamQuery(stream));
        ck_assert_uint_eq(bytes[N_BYTES - 1], 0x29);
}

CONTRACT_MAIN("host")
