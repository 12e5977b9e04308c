/* SPDX-License-Identifier: Apache-2.0 */
/* The emulated driver's capacity: exact between processes, and never fragmented. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/contract/contract.h"

#define FD      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define NONE    CU_MEM_HANDLE_TYPE_NONE
#define MIB     ((size_t)1 << 20)
#define TOTAL   (1024 * MIB)
#define BLOCK   (64 * MIB)
#define GRANULE CONTRACT_GRANULE

static size_t used(void)
{
        return TOTAL - contract_free_bytes();
}

static CUresult create(size_t n_bytes, CUmemGenericAllocationHandle *ret_handle)
{
        CUmemAllocationProp properties = contract_properties(FD);

        return cu.cuMemCreate(ret_handle, n_bytes, &properties, 0);
}

/* Does as it is told: takes half of the device, lets it go. */
static void taker(int socket)
{
        CUmemGenericAllocationHandle handle;

        contract_init();
        (void)contract_receive(socket, 't');
        ck_ok(create(TOTAL / 2, &handle));
        contract_send(socket, 't', -1);
        (void)contract_receive(socket, 'r');
        ck_ok(cu.cuMemRelease(handle));
        contract_send(socket, 'r', -1);
        (void)contract_receive(socket, 'x');
}

static void tell(const struct contract_peer *peer, char what)
{
        contract_send(peer->socket, what, -1);
        (void)contract_receive(peer->socket, what);
}

TEST(capacity_is_exact_between_processes)
{
        struct contract_peer other = contract_start(taker);
        CUmemGenericAllocationHandle handle, more;
        CUdeviceptr address;

        (void)contract_context();
        ck_assert_uint_eq(used(), 0);
        tell(&other, 't');
        ck_assert_uint_eq(used(), TOTAL / 2);
        ck_ok(create(TOTAL / 2, &handle));
        ck_assert_uint_eq(used(), TOTAL);
        ck_cuda(CUDA_ERROR_OUT_OF_MEMORY, create(GRANULE, &more));
        ck_cuda(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc(&address, 1));
        tell(&other, 'r');
        ck_assert_uint_eq(used(), TOTAL / 2);
        ck_ok(cu.cuMemAlloc(&address, 1));
        ck_assert_uint_eq(used(), TOTAL / 2 + GRANULE);
        ck_ok(cu.cuMemFree(address));
        ck_ok(cu.cuMemRelease(handle));
        ck_assert_uint_eq(used(), 0);
        contract_send(other.socket, 'x', -1);
        contract_finish(&other);
}

/* Takes memory, marks it, finds its mark again, lets it go; many times. */
static void busy(int socket)
{
        (void)contract_receive(socket, 'b');
        (void)contract_context();
        for (int i = 0; i < 500; i++) {
                size_t n_bytes = GRANULE * (size_t)(1 + i % 7);
                struct contract_block block = contract_map(contract_create(n_bytes, FD), n_bytes);
                uint32_t mark = (uint32_t)getpid(), found = 0;

                ck_ok(cu.cuMemcpyDtoH(&found, block.address + n_bytes - 4, 4));
                ck_assert_uint_eq(found, 0);
                ck_ok(cu.cuMemsetD32(block.address + n_bytes - 4, mark, 1));
                ck_ok(cu.cuMemcpyDtoH(&found, block.address + n_bytes - 4, 4));
                ck_assert_uint_eq(found, mark);
                contract_unmap(&block);
                ck_ok(cu.cuMemRelease(block.handle));
        }
}

TEST(processes_take_memory_at_once)
{
        enum { N = 4 };
        struct contract_peer peers[N];

        for (int i = 0; i < N; i++)
                peers[i] = contract_start(busy);
        for (int i = 0; i < N; i++)
                contract_send(peers[i].socket, 'b', -1);
        for (int i = 0; i < N; i++)
                contract_finish(&peers[i]);
        (void)contract_context();
        ck_assert_uint_eq(used(), 0);
}

static void *busy_thread(void *context)
{
        ck_ok(cu.cuCtxSetCurrent(context));
        for (int i = 0; i < 100; i++) {
                struct contract_block block = contract_map(contract_create(GRANULE, FD), GRANULE);
                CUdeviceptr address;
                CUstream stream;
                CUevent event;
                uint32_t found;

                ck_ok(cu.cuMemAlloc(&address, GRANULE));
                ck_ok(cu.cuStreamCreate(&stream, i % 2 ? CU_STREAM_NON_BLOCKING : 0));
                event = contract_event(0);
                ck_ok(cu.cuMemsetD32Async(address, (uint32_t)i, 1024, stream));
                ck_ok(cu.cuEventRecord(event, stream));
                ck_ok(cu.cuStreamWaitEvent(CU_STREAM_PER_THREAD, event, 0));
                ck_ok(cu.cuMemcpyDtoDAsync(block.address, address, 4096, CU_STREAM_PER_THREAD));
                ck_ok(cu.cuStreamSynchronize(CU_STREAM_PER_THREAD));
                ck_ok(cu.cuMemcpyDtoH(&found, block.address + 4092, 4));
                ck_assert_uint_eq(found, i);
                ck_ok(cu.cuEventDestroy(event));
                ck_ok(cu.cuStreamDestroy(stream));
                ck_ok(cu.cuMemFree(address));
                contract_unmap(&block);
                ck_ok(cu.cuMemRelease(block.handle));
        }
        return NULL;
}

TEST(threads_use_everything_at_once)
{
        enum { N = 4 };
        CUcontext context = contract_context();
        pthread_t threads[N];

        for (int i = 0; i < N; i++)
                ck_assert_int_eq(pthread_create(&threads[i], NULL, busy_thread, context), 0);
        for (int i = 0; i < N; i++)
                ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        ck_assert_uint_eq(used(), 0);
}

TEST(free_bytes_in_pieces_are_as_good_as_in_one)
{
        enum { N = 256 };
        CUmemGenericAllocationHandle handles[N], large;

        (void)contract_context();
        for (size_t i = 0; i < N; i++)
                ck_ok(create(TOTAL / N, &handles[i]));
        ck_cuda(CUDA_ERROR_OUT_OF_MEMORY, create(GRANULE, &large));
        for (size_t i = 0; i < N; i += 2)
                ck_ok(cu.cuMemRelease(handles[i]));
        ck_ok(create(TOTAL / 2, &large));
        ck_assert_uint_eq(used(), TOTAL);
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
        const char *text = getenv(name);

        return text ? strtoull(text, NULL, 0) : otherwise;
}

static uint64_t random_next(uint64_t *state)
{
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        return *state;
}

TEST(memory_is_refused_only_when_bytes_are_lacking)
{
        enum { SLOTS = 64 };
        struct {
                CUmemGenericAllocationHandle handle;
                size_t n_bytes;
        } slots[SLOTS] = {0};
        uint64_t state = setting("GPUMEM_TEST_SEED", UINT64_C(0x9E3779B97F4A7C15));
        uint64_t n_steps = setting("GPUMEM_TEST_STEPS", 100000);
        size_t model = 0;

        (void)fprintf(stderr, "# seed %#" PRIx64 ", %" PRIu64 " steps\n", state, n_steps);
        (void)contract_context();
        for (uint64_t step = 0; step < n_steps; step++) {
                size_t i = random_next(&state) % SLOTS;
                unsigned magnitude = (unsigned)(random_next(&state) % 9);
                size_t n_bytes = GRANULE * (1 + random_next(&state) % ((size_t)1 << magnitude));

                if (slots[i].n_bytes) {
                        ck_ok(cu.cuMemRelease(slots[i].handle));
                        model -= slots[i].n_bytes;
                        slots[i].n_bytes = 0;
                } else if (model + n_bytes <= TOTAL) {
                        ck_ok(create(n_bytes, &slots[i].handle));
                        slots[i].n_bytes = n_bytes;
                        model += n_bytes;
                } else {
                        ck_cuda(CUDA_ERROR_OUT_OF_MEMORY, create(n_bytes, &slots[i].handle));
                }
                if (step % 64 == 0)
                        ck_assert_uint_eq(used(), model);
        }
}

TEST(a_primary_context_costs_what_is_configured)
{
        contract_configure("bytes=1GiB,ctx_bytes=64MiB");
        (void)contract_context();
        ck_assert_uint_eq(used(), BLOCK);
        ck_ok(cu.cuDevicePrimaryCtxRelease(0));
        (void)contract_context();
        ck_assert_uint_eq(used(), BLOCK);
}

TEST(releasing_a_primary_context_frees_its_memory)
{
        CUdeviceptr address;

        (void)contract_context();
        ck_ok(cu.cuMemAlloc(&address, BLOCK));
        ck_ok(cu.cuDevicePrimaryCtxRelease(0));
        ck_cuda(CUDA_ERROR_CONTEXT_IS_DESTROYED, cu.cuMemFree(address));
        ck_cuda(CUDA_ERROR_INVALID_CONTEXT, cu.cuDevicePrimaryCtxRelease(0));
        (void)contract_context();
        ck_assert_uint_eq(used(), 0);
        ck_cuda(CUDA_ERROR_INVALID_VALUE, cu.cuMemFree(address));
}

CONTRACT_MAIN("capacity")
