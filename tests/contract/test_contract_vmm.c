/* SPDX-License-Identifier: Apache-2.0 */
/* Handles, reservations and mappings. */
#include "tests/contract/contract.h"

#define FD      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define NONE    CU_MEM_HANDLE_TYPE_NONE
#define GRANULE CONTRACT_GRANULE
#define INVALID CUDA_ERROR_INVALID_VALUE

TEST(nothing_works_before_init)
{
        CUmemAllocationProp properties = contract_properties(NONE);
        CUmemGenericAllocationHandle handle;
        CUdeviceptr address;
        int n;

        ck_cuda(CUDA_ERROR_NOT_INITIALIZED, cu.cuDeviceGetCount(&n));
        ck_cuda(CUDA_ERROR_NOT_INITIALIZED, cu.cuMemCreate(&handle, GRANULE, &properties, 0));
        ck_cuda(CUDA_ERROR_NOT_INITIALIZED, cu.cuMemAddressReserve(&address, GRANULE, 0, 0, 0));
        ck_cuda(INVALID, cu.cuInit(1));
}

TEST(everything_works_without_a_context)
{
        struct contract_block block;
        CUcontext current;
        int fd;

        contract_init();
        block = contract_map(contract_create(GRANULE, FD), GRANULE);
        fd = contract_export(block.handle);
        ck_ok(cu.cuMemRelease(contract_import(fd)));
        contract_unmap(&block);
        ck_ok(cu.cuMemRelease(block.handle));
        ck_ok(cu.cuCtxGetCurrent(&current));
        ck_assert_ptr_null(current);
}

TEST(granularity_is_two_mebibytes)
{
        CUmemAllocationProp properties = contract_properties(NONE);
        size_t minimum = 0, recommended = 0;

        contract_init();
        for (int i = 0; i < 2; i++) {
                ck_ok(cu.cuMemGetAllocationGranularity(&minimum, &properties,
                                                       CU_MEM_ALLOC_GRANULARITY_MINIMUM));
                ck_ok(cu.cuMemGetAllocationGranularity(&recommended, &properties,
                                                       CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
                ck_assert_uint_eq(minimum, GRANULE);
                ck_assert_uint_eq(recommended, GRANULE);
                properties.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
        }
}

TEST(a_handle_is_mapped_whole)
{
        CUmemGenericAllocationHandle handle;
        CUdeviceptr address;

        contract_init();
        handle = contract_create(2 * GRANULE, NONE);
        ck_ok(cu.cuMemAddressReserve(&address, 2 * GRANULE, 0, 0, 0));
        ck_cuda(CUDA_ERROR_NOT_SUPPORTED, cu.cuMemMap(address, GRANULE, 0, handle, 0));
        ck_cuda(CUDA_ERROR_NOT_SUPPORTED, cu.cuMemMap(address, GRANULE, GRANULE, handle, 0));
        ck_ok(cu.cuMemMap(address, 2 * GRANULE, 0, handle, 0));
}

TEST(new_memory_is_zero)
{
        enum { TRIES = 4 };

        (void)contract_context();
        for (int i = 0; i < TRIES; i++) {
                struct contract_block block = contract_map(contract_create(GRANULE, NONE), GRANULE);
                unsigned char bytes[4096];

                ck_ok(cu.cuMemcpyDtoH(bytes, block.address + GRANULE - sizeof(bytes),
                                      sizeof(bytes)));
                for (size_t j = 0; j < sizeof(bytes); j++)
                        ck_assert_uint_eq(bytes[j], 0);
                ck_ok(cu.cuMemsetD8(block.address, 0xAB, GRANULE));
                ck_assert_uint_eq(contract_read(block.address + GRANULE - 1), 0xAB);
                contract_unmap(&block);
                ck_ok(cu.cuMemRelease(block.handle));
        }
}

TEST(reservations_are_aligned_and_apart)
{
        CUdeviceptr first, second;

        contract_init();
        ck_ok(cu.cuMemAddressReserve(&first, 8 * GRANULE, 32 * GRANULE, 0, 0));
        ck_ok(cu.cuMemAddressReserve(&second, 8 * GRANULE, 0, 0, 0));
        ck_assert_uint_eq(first % (32 * GRANULE), 0);
        ck_assert_uint_eq(second % GRANULE, 0);
        ck_assert(first + 8 * GRANULE <= second || second + 8 * GRANULE <= first);
}

TEST(access_is_what_was_set)
{
        CUmemLocation device = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
        struct contract_block block;
        unsigned long long flags;

        contract_init();
        block = contract_map(contract_create(GRANULE, NONE), GRANULE);
        ck_ok(cu.cuMemGetAccess(&flags, &device, block.address));
        ck_assert_uint_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        ck_ok(contract_set_access(block.address, GRANULE, CU_MEM_ACCESS_FLAGS_PROT_NONE));
        ck_ok(cu.cuMemGetAccess(&flags, &device, block.address));
        ck_assert_uint_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
}

TEST(a_mapping_keeps_the_memory_without_a_handle)
{
        CUmemGenericAllocationHandle again;
        struct contract_block block;
        int fd;

        (void)contract_context();
        block = contract_map(contract_create(GRANULE, FD), GRANULE);
        contract_write(block.address, 0x44);
        ck_ok(cu.cuMemRelease(block.handle));
        ck_assert_uint_eq(contract_read(block.address), 0x44);
        ck_ok(cu.cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)block.address));
        fd = contract_export(again);
        ck_assert_int_ge(fd, 0);
        ck_ok(cu.cuMemRelease(again));
        ck_cuda(INVALID, cu.cuMemRelease(again));
        ck_assert_uint_eq(contract_read(block.address), 0x44);
}

/* The handle that is retained is the only one. */
TEST(a_block_moves_with_its_bytes)
{
        CUmemGenericAllocationHandle created, handle;
        struct contract_block block;

        (void)contract_context();
        created = contract_create(GRANULE, FD);
        handle = contract_import(contract_export(created));
        ck_ok(cu.cuMemRelease(created));
        block = contract_map(handle, GRANULE);
        contract_write(block.address, 0x45);
        ck_ok(cu.cuMemRelease(handle));
        ck_ok(cu.cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)block.address));
        contract_unmap(&block);
        block = contract_map(handle, GRANULE);
        ck_ok(cu.cuMemRelease(handle));
        ck_assert_uint_eq(contract_read(block.address), 0x45);
        contract_unmap(&block);
}

TEST(retaining_counts)
{
        CUmemGenericAllocationHandle again;
        struct contract_block block;

        contract_init();
        block = contract_map(contract_create(GRANULE, FD), GRANULE);
        ck_ok(cu.cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(block.address + 1)));
        ck_assert_uint_eq(again, block.handle);
        ck_ok(cu.cuMemRelease(again));
        ck_ok(cu.cuMemRelease(again));
        ck_cuda(INVALID, cu.cuMemRelease(again));
        contract_unmap(&block);
        ck_cuda(INVALID, cu.cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)block.address));
}

TEST(properties_are_those_of_the_creation)
{
        CUmemAllocationProp wanted = contract_properties(FD), found;
        CUmemGenericAllocationHandle handle;

        contract_init();
        wanted.allocFlags.gpuDirectRDMACapable = 1;
        ck_ok(cu.cuMemCreate(&handle, GRANULE, &wanted, 0));
        ck_ok(cu.cuMemGetAllocationPropertiesFromHandle(&found, handle));
        ck_assert_int_eq(found.type, wanted.type);
        ck_assert_int_eq(found.location.type, wanted.location.type);
        ck_assert_int_eq(found.location.id, wanted.location.id);
        ck_assert_int_eq(found.requestedHandleTypes, wanted.requestedHandleTypes);
        ck_assert_int_eq(found.allocFlags.gpuDirectRDMACapable, 1);
        ck_cuda(INVALID, cu.cuMemGetAllocationPropertiesFromHandle(&found, 0));
}

TEST(one_handle_has_two_addresses)
{
        struct contract_block first, second;

        (void)contract_context();
        first = contract_map(contract_create(GRANULE, NONE), GRANULE);
        second = contract_map(first.handle, GRANULE);
        ck_assert_uint_ne(first.address, second.address);
        contract_write(first.address + 9, 0x21);
        ck_assert_uint_eq(contract_read(second.address + 9), 0x21);
        contract_unmap(&first);
        ck_assert_uint_eq(contract_read(second.address + 9), 0x21);
}

TEST(handles_are_stitched_into_one_range)
{
        unsigned char out[4096], in[4096];
        CUdeviceptr address;

        (void)contract_context();
        ck_ok(cu.cuMemAddressReserve(&address, 3 * GRANULE, 0, 0, 0));
        for (size_t i = 0; i < 3; i++)
                ck_ok(cu.cuMemMap(address + i * GRANULE, GRANULE, 0, contract_create(GRANULE, NONE),
                                  0));
        ck_ok(contract_set_access(address, 3 * GRANULE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
        for (size_t i = 0; i < sizeof(out); i++)
                out[i] = (unsigned char)(i * 7);
        ck_ok(cu.cuMemcpyHtoD(address + GRANULE - 1000, out, sizeof(out)));
        ck_ok(cu.cuMemcpyDtoD(address + 2 * GRANULE - 2000, address + GRANULE - 1000, sizeof(out)));
        ck_ok(cu.cuMemcpyDtoH(in, address + 2 * GRANULE - 2000, sizeof(in)));
        ck_assert_mem_eq(in, out, sizeof(in));
        ck_ok(cu.cuMemUnmap(address, 3 * GRANULE));
        ck_ok(cu.cuMemAddressFree(address, 3 * GRANULE));
}

TEST(an_address_is_mapped_again)
{
        struct contract_block block;

        (void)contract_context();
        block = contract_map(contract_create(GRANULE, NONE), GRANULE);
        contract_write(block.address, 0x10);
        ck_ok(cu.cuMemUnmap(block.address, GRANULE));
        ck_ok(cu.cuMemMap(block.address, GRANULE, 0, contract_create(GRANULE, NONE), 0));
        ck_ok(contract_set_access(block.address, GRANULE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
        ck_assert_uint_eq(contract_read(block.address), 0);
        ck_ok(cu.cuMemUnmap(block.address, GRANULE));
        ck_ok(cu.cuMemMap(block.address, GRANULE, 0, block.handle, 0));
        ck_ok(contract_set_access(block.address, GRANULE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
        ck_assert_uint_eq(contract_read(block.address), 0x10);
}

CONTRACT_MAIN("mapping")
