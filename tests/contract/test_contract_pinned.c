/* SPDX-License-Identifier: Apache-2.0 */
/* What pinned pools rely on: memory registered piece by piece, and the driver's own host memory,
 * reached by the CPU and every device. */
#include <string.h>
#include <sys/mman.h>

#include "tests/contract/contract.h"

#define PIECE ((size_t)4 << 20)
#define FLAGS (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP)

static unsigned char *registered_pieces(unsigned n)
{
        unsigned char *bytes = mmap(NULL, n * PIECE, PROT_READ | PROT_WRITE,
                                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        ck_assert_ptr_ne(bytes, MAP_FAILED);
        for (unsigned i = 0; i < n; i++)
                ck_ok(cu.cuMemHostRegister(bytes + i * PIECE, PIECE, FLAGS));
        return bytes;
}

/* Addresses go on where one piece ends and the next begins, but a copy may not. */
TEST(a_copy_over_two_registrations_is_refused)
{
        unsigned char *bytes;
        CUdeviceptr there, seen;
        CUstream stream;

        (void)contract_context();
        bytes = registered_pieces(2);
        ck_ok(cu.cuMemAlloc(&there, PIECE));
        stream = contract_stream(CU_STREAM_NON_BLOCKING);
        ck_assert_int_eq(cu.cuMemcpyHtoDAsync(there, bytes + PIECE / 2, PIECE, stream),
                         CUDA_ERROR_INVALID_VALUE);
        ck_ok(cu.cuMemcpyHtoDAsync(there, bytes + PIECE, PIECE, stream));
        ck_ok(cu.cuStreamSynchronize(stream));
        for (unsigned i = 0; i < 2; i++) {
                ck_ok(cu.cuMemHostGetDevicePointer(&seen, bytes + i * PIECE, 0));
                ck_assert_uint_eq(seen, (uintptr_t)bytes + i * PIECE);
        }
}

/* One piece may go while the other stays. */
TEST(registrations_of_neighbours_end_one_by_one)
{
        unsigned char *bytes;
        CUdeviceptr seen;

        (void)contract_context();
        bytes = registered_pieces(3);
        ck_ok(cu.cuMemHostUnregister(bytes + PIECE));
        ck_ok(cu.cuMemHostGetDevicePointer(&seen, bytes, 0));
        ck_ok(cu.cuMemHostGetDevicePointer(&seen, bytes + 2 * PIECE, 0));
        ck_cuda(CUDA_ERROR_INVALID_VALUE, cu.cuMemHostGetDevicePointer(&seen, bytes + PIECE, 0));
        ck_ok(cu.cuMemHostUnregister(bytes));
        ck_ok(cu.cuMemHostUnregister(bytes + 2 * PIECE));
}

/* For the CPU and for every device, in one call and without a context. */
static struct contract_block map_for_all(CUmemGenericAllocationHandle handle)
{
        CUmemAccessDesc access[1 + 16] = {{.location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA},
                                           .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
        struct contract_block block = {.handle = handle, .n_bytes = CONTRACT_GRANULE};
        int count;

        ck_ok(cu.cuDeviceGetCount(&count));
        ck_assert_int_le(count, 16);
        for (int i = 0; i < count; i++)
                access[1 + i] = (CUmemAccessDesc){
                        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = i},
                        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        ck_ok(cu.cuMemAddressReserve(&block.address, CONTRACT_GRANULE, 0, 0, 0));
        ck_ok(cu.cuMemMap(block.address, CONTRACT_GRANULE, 0, handle, 0));
        ck_ok(cu.cuMemSetAccess(block.address, CONTRACT_GRANULE, access, 1 + (size_t)count));
        return block;
}

static struct contract_block host_block(void)
{
        CUmemAllocationProp properties = contract_properties(
                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
        CUmemGenericAllocationHandle handle;

        properties.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
        ck_ok(cu.cuMemCreate(&handle, CONTRACT_GRANULE, &properties, 0));
        return map_for_all(handle);
}

static void let_go(const struct contract_block *block)
{
        ck_ok(cu.cuMemUnmap(block->address, block->n_bytes));
        ck_ok(cu.cuMemAddressFree(block->address, block->n_bytes));
        ck_ok(cu.cuMemRelease(block->handle));
}

static unsigned char *cpu_bytes(const struct contract_block *block)
{
        return (unsigned char *)(uintptr_t)block->address;
}

TEST(host_memory_is_everybodys_without_a_context)
{
        struct contract_block block;
        unsigned char *bytes;
        int count;

        contract_init();
        block = host_block();
        bytes = cpu_bytes(&block);
        memset(bytes, 0, CONTRACT_GRANULE);
        ck_ok(cu.cuDeviceGetCount(&count));
        for (int i = 0; i < count; i++) {
                CUdeviceptr there;
                CUcontext context;

                ck_ok(cu.cuDevicePrimaryCtxRetain(&context, i));
                ck_ok(cu.cuCtxSetCurrent(context));
                ck_ok(cu.cuMemAlloc(&there, CONTRACT_GRANULE));
                bytes[5] = (unsigned char)(i + 1);
                ck_ok(cu.cuMemcpyHtoD(there, bytes, CONTRACT_GRANULE));
                bytes[5] = 0;
                ck_ok(cu.cuMemcpyDtoH(bytes, there, CONTRACT_GRANULE));
                ck_assert_uint_eq(bytes[5], (unsigned char)(i + 1));
        }
        let_go(&block);
}

/* Another tenant's bytes may have been there. */
TEST(host_memory_is_zero_when_it_is_made)
{
        contract_init();
        for (unsigned i = 0; i < 64; i++) {
                struct contract_block block = host_block();

                for (size_t n = 0; n < CONTRACT_GRANULE; n++)
                        ck_assert_uint_eq(cpu_bytes(&block)[n], 0);
                memset(cpu_bytes(&block), 0xA5, CONTRACT_GRANULE);
                let_go(&block);
        }
}

TEST(host_memory_can_be_kept_from_forked_children)
{
        struct contract_block block;

        contract_init();
        block = host_block();
        ck_assert_int_eq(madvise(cpu_bytes(&block), CONTRACT_GRANULE, MADV_DONTFORK), 0);
        let_go(&block);
}

CONTRACT_MAIN("contract-pinned")
