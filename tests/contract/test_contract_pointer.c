/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver knows about addresses. */
#include "tests/contract/contract.h"

#define GRANULE CONTRACT_GRANULE
#define INVALID CUDA_ERROR_INVALID_VALUE
#define LARGE   ((size_t)128 << 20)

TEST(an_address_range_is_that_of_the_allocation)
{
        CUdeviceptr address, base = 0;
        size_t n_bytes = 0;
        int local;

        (void)contract_context();
        address = contract_alloc(LARGE);
        ck_ok(cu.cuMemGetAddressRange(&base, &n_bytes, address + 12345));
        ck_assert_uint_eq(base, address);
        ck_assert_uint_eq(n_bytes, LARGE);
        ck_ok(cu.cuMemGetAddressRange(NULL, &n_bytes, address));
        ck_cuda(CUDA_ERROR_NOT_FOUND,
                cu.cuMemGetAddressRange(&base, &n_bytes, (CUdeviceptr)(uintptr_t)&local));
}

TEST(attributes_of_allocated_memory)
{
        CUcontext context = contract_context(), found_context = NULL;
        CUdeviceptr address = contract_alloc(LARGE), base = 0;
        unsigned int type = 0;
        unsigned char capable = 0, mapped = 0;
        size_t n_bytes = 0;
        void *host = NULL;
        int device = -1;

        ck_ok(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address + 5));
        ck_assert_uint_eq(type, CU_MEMORYTYPE_DEVICE);
        ck_ok(cu.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address));
        ck_assert_int_eq(device, 0);
        ck_ok(cu.cuPointerGetAttribute(&found_context, CU_POINTER_ATTRIBUTE_CONTEXT, address));
        ck_assert_ptr_eq(found_context, context);
        ck_ok(cu.cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address + 5));
        ck_assert_uint_eq(base, address);
        ck_ok(cu.cuPointerGetAttribute(&n_bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address));
        ck_assert_uint_eq(n_bytes, LARGE);
        ck_ok(cu.cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, address + 5));
        ck_assert_uint_eq(base, address + 5);
        ck_ok(cu.cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                                       address));
        ck_assert_uint_eq(capable, 1);
        ck_ok(cu.cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, address));
        ck_assert_uint_eq(mapped, 1);
        ck_cuda(INVALID,
                cu.cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, address));
}

TEST(attributes_of_mapped_memory)
{
        const CUmemAllocationHandleType fd = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        struct contract_block block;
        unsigned long long types = 0;
        unsigned int type = 0;
        unsigned char flag = 9;
        int device = -1;

        (void)contract_context();
        block = contract_map(contract_create(GRANULE, fd), GRANULE);
        ck_ok(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block.address));
        ck_assert_uint_eq(type, CU_MEMORYTYPE_DEVICE);
        ck_ok(cu.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                       block.address));
        ck_assert_int_eq(device, 0);
        ck_ok(cu.cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
                                       block.address));
        ck_assert_uint_eq(types, fd);
        ck_ok(cu.cuPointerGetAttribute(&flag, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                                       block.address));
        ck_assert_uint_eq(flag, 0);
        ck_ok(cu.cuPointerGetAttribute(&flag, CU_POINTER_ATTRIBUTE_MAPPED, block.address));
        ck_assert_uint_eq(flag, 1);
}

TEST(an_unknown_pointer_has_no_attribute)
{
        unsigned int type;

        (void)contract_context();
        ck_cuda(INVALID, cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                                  (CUdeviceptr)(uintptr_t)&type));
}

/* Asked for several attributes, the driver never refuses an address. */
TEST(an_unknown_pointer_has_memory_type_zero)
{
        CUpointer_attribute wanted = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
        unsigned int type = 7;
        void *answers[] = {&type};

        (void)contract_context();
        ck_ok(cu.cuPointerGetAttributes(1, &wanted, answers, (CUdeviceptr)(uintptr_t)&type));
        ck_assert_uint_eq(type, 0);
}

TEST(an_unknown_pointer_has_no_size)
{
        CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                        CU_POINTER_ATTRIBUTE_RANGE_SIZE};
        unsigned int type = 7;
        size_t n_bytes = 7;
        void *answers[] = {&type, &n_bytes};

        (void)contract_context();
        ck_ok(cu.cuPointerGetAttributes(2, wanted, answers, (CUdeviceptr)(uintptr_t)&type));
        ck_assert_uint_eq(n_bytes, 7);
}

TEST(several_attributes_are_had_at_once)
{
        CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                        CU_POINTER_ATTRIBUTE_RANGE_SIZE};
        unsigned int type = 7;
        size_t n_bytes = 7;
        void *answers[] = {&type, &n_bytes};

        (void)contract_context();
        ck_ok(cu.cuPointerGetAttributes(2, wanted, answers, contract_alloc(LARGE)));
        ck_assert_uint_eq(type, CU_MEMORYTYPE_DEVICE);
        ck_assert_uint_eq(n_bytes, LARGE);
}

TEST(freed_memory_has_no_attribute)
{
        CUdeviceptr address;
        unsigned int type;

        (void)contract_context();
        address = contract_alloc(LARGE);
        ck_ok(cu.cuMemFree(address));
        ck_cuda(INVALID,
                cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
}

CONTRACT_MAIN("attributes")
