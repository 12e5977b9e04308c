/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver knows about addresses. */
#include "base/err.h"
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

/* What was asked for, not what was taken for it. */
TEST(what_is_behind_an_allocation_is_not_found)
{
        CUdeviceptr address, base = 1;
        size_t n_bytes = 1;

        (void)contract_context();
        address = contract_alloc(10000);
        ck_ok(cu.cuMemGetAddressRange(&base, &n_bytes, address + 9999));
        ck_assert_uint_eq(base, address);
        ck_assert_uint_eq(n_bytes, 10000);
        ck_cuda(CUDA_ERROR_NOT_FOUND, cu.cuMemGetAddressRange(&base, &n_bytes, address + 10000));
        ck_assert_uint_eq(base, 0);
        ck_assert_uint_eq(n_bytes, 0);
        ck_cuda(INVALID, cu.cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                                  address + 10000));
}

static void check_size(CUdeviceptr address, CUpointer_attribute attribute, size_t expected)
{
        size_t found = 0;

        ck_ok(cu.cuPointerGetAttribute(&found, attribute, address));
        ck_assert_uint_eq(found, expected);
}

/* Two handles in a reservation of four granules. */
static CUdeviceptr two_mapped(void)
{
        const CUmemAllocationHandleType none = CU_MEM_HANDLE_TYPE_NONE;
        CUdeviceptr base;

        (void)contract_context();
        ck_ok(cu.cuMemAddressReserve(&base, 4 * GRANULE, 0, 0, 0));
        ck_ok(cu.cuMemMap(base, GRANULE, 0, contract_create(GRANULE, none), 0));
        ck_ok(cu.cuMemMap(base + GRANULE, 2 * GRANULE, 0, contract_create(2 * GRANULE, none), 0));
        return base;
}

TEST(an_address_range_of_virtual_memory_is_the_mapped_handle)
{
        CUdeviceptr base = two_mapped(), found = 0;
        size_t n_bytes = 0;

        ck_ok(contract_set_access(base, 3 * GRANULE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
        ck_ok(cu.cuMemGetAddressRange(&found, &n_bytes, base + 5));
        ck_assert_uint_eq(found, base);
        ck_assert_uint_eq(n_bytes, GRANULE);
        ck_ok(cu.cuMemGetAddressRange(&found, &n_bytes, base + 2 * GRANULE));
        ck_assert_uint_eq(found, base + GRANULE);
        ck_assert_uint_eq(n_bytes, 2 * GRANULE);
        ck_cuda(CUDA_ERROR_NOT_FOUND,
                cu.cuMemGetAddressRange(&found, &n_bytes, base + 3 * GRANULE));
}

TEST(an_address_range_is_found_with_access_only)
{
        CUdeviceptr base = two_mapped(), found = 1;
        size_t n_bytes = 1;

        ck_cuda(CUDA_ERROR_NOT_FOUND, cu.cuMemGetAddressRange(&found, &n_bytes, base));
        ck_assert_uint_eq(found, 0);
        ck_assert_uint_eq(n_bytes, 0);
        ck_ok(contract_set_access(base, GRANULE, CU_MEM_ACCESS_FLAGS_PROT_READ));
        ck_ok(cu.cuMemGetAddressRange(&found, &n_bytes, base));
        ck_ok(contract_set_access(base, GRANULE, CU_MEM_ACCESS_FLAGS_PROT_NONE));
        ck_cuda(CUDA_ERROR_NOT_FOUND, cu.cuMemGetAddressRange(&found, &n_bytes, base));
}

TEST(attributes_tell_reservation_and_mapping_apart)
{
        CUdeviceptr base = two_mapped(), address = base + 2 * GRANULE;

        check_size(address, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, base);
        check_size(address, CU_POINTER_ATTRIBUTE_RANGE_SIZE, 4 * GRANULE);
        check_size(address, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, base + GRANULE);
        check_size(address, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, 2 * GRANULE);
}

TEST(what_is_only_reserved_has_no_attribute)
{
        static const CUpointer_attribute attributes[] = {
                CU_POINTER_ATTRIBUTE_CONTEXT,
                CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                CU_POINTER_ATTRIBUTE_MAPPED,
                CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
        };
        CUdeviceptr address = two_mapped() + 3 * GRANULE;
        unsigned long long value;

        for (size_t i = 0; i < ARRAY_SIZE(attributes); i++)
                ck_cuda(INVALID, cu.cuPointerGetAttribute(&value, attributes[i], address));
}

TEST(an_address_range_of_host_memory_is_what_was_asked_for)
{
        static unsigned char bytes[3 * 4096];
        CUdeviceptr base = 0;
        size_t n_bytes = 0;
        void *host;

        (void)contract_context();
        ck_ok(cu.cuMemHostAlloc(&host, 10000, 0));
        ck_ok(cu.cuMemGetAddressRange(&base, &n_bytes, (CUdeviceptr)host + 17));
        ck_assert_uint_eq(base, (CUdeviceptr)host);
        ck_assert_uint_eq(n_bytes, 10000);
        ck_ok(cu.cuMemHostRegister(bytes + 100, 5000, 0));
        ck_ok(cu.cuMemGetAddressRange(&base, &n_bytes, (CUdeviceptr)bytes + 4096));
        ck_assert_uint_eq(base, (CUdeviceptr)bytes + 100);
        ck_assert_uint_eq(n_bytes, 5000);
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
        unsigned int type;
        CUdeviceptr address = contract_alloc(LARGE);

        ck_ok(cu.cuMemFree(address));
        ck_cuda(INVALID,
                cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
}

CONTRACT_MAIN("attributes")
