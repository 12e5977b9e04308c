/* cuMemAlloc, copies that wait, and what the driver knows about addresses. */
#include <stdlib.h>
#include <string.h>

#include "tests/contract/contract.h"

#define GRANULE CONTRACT_GRANULE
#define INVALID CUDA_ERROR_INVALID_VALUE
#define LARGE   ((size_t)128 << 20)

static CUdeviceptr alloc(size_t n_bytes)
{
        CUdeviceptr address;

        ck_ok(cu.cuMemAlloc(&address, n_bytes));
        return address;
}

START_TEST(alloc_takes_and_free_returns)
{
        size_t n_before, n_held;
        CUdeviceptr address;

        (void)contract_context();
        n_before = contract_free_bytes();
        address = alloc(LARGE);
        ck_assert_uint_eq(address % 512, 0);
        n_held = contract_free_bytes();
        ck_assert_uint_le(n_held, n_before - LARGE);
        ck_ok(cu.cuMemFree(address));
        ck_assert_uint_ge(contract_free_bytes(), n_held + LARGE);
}
END_TEST

START_TEST(free_waits_for_all_work_of_the_context)
{
        struct contract_gate gate;
        CUdeviceptr address;
        CUstream stream;

        (void)contract_context();
        address = alloc(LARGE);
        ck_ok(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        contract_hold(stream, &gate);
        ck_ok(cu.cuMemsetD8Async(address, 1, LARGE / 8, stream));
        contract_await(&gate);
        contract_open_later(&gate);
        ck_ok(cu.cuMemFree(address));
        ck_ok(cu.cuStreamQuery(stream));
}
END_TEST

START_TEST(alloc_and_free_refuse)
{
        size_t n_total;
        CUdeviceptr address = 77;

        (void)contract_context();
        ck_ok(cu.cuDeviceTotalMem(&n_total, 0));
        ck_cuda(INVALID, cu.cuMemAlloc(&address, 0));
        ck_cuda(INVALID, cu.cuMemAlloc(NULL, 4096));
        ck_cuda(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc(&address, n_total + 1));
        ck_assert_uint_eq(address, 77);
        address = alloc(GRANULE);
        ck_cuda(INVALID, cu.cuMemFree(address + 512));
        ck_ok(cu.cuMemFree(address));
        ck_cuda(INVALID, cu.cuMemFree(address));
}
END_TEST

START_TEST(allocated_memory_is_not_the_virtual_interface_s)
{
        struct contract_block block;
        CUdeviceptr address;

        (void)contract_context();
        address = alloc(GRANULE);
        ck_cuda(INVALID, cu.cuMemUnmap(address, GRANULE));
        ck_cuda(INVALID, cu.cuMemAddressFree(address, GRANULE));
        block = contract_map(contract_create(GRANULE, CU_MEM_HANDLE_TYPE_NONE), GRANULE);
        ck_cuda(INVALID, cu.cuMemFree(block.address));
        contract_write(block.address, 1);
        contract_write(address, 1);
}
END_TEST

START_TEST(memory_allocated_again_is_zero)
{
        enum { TRIES = 4 };

        (void)contract_context();
        for (int i = 0; i < TRIES; i++) {
                CUdeviceptr address = alloc(GRANULE);
                unsigned char bytes[4096];

                ck_ok(cu.cuMemcpyDtoH(bytes, address + GRANULE / 2, sizeof(bytes)));
                for (size_t j = 0; j < sizeof(bytes); j++)
                        ck_assert_uint_eq(bytes[j], 0);
                ck_ok(cu.cuMemsetD8(address, 0xCD, GRANULE));
                ck_ok(cu.cuMemFree(address));
        }
}
END_TEST

START_TEST(bytes_go_there_and_back)
{
        unsigned char out[100000], in[sizeof(out)];
        CUdeviceptr first, second;

        (void)contract_context();
        first = alloc(sizeof(out));
        second = alloc(sizeof(out));
        for (size_t i = 0; i < sizeof(out); i++)
                out[i] = (unsigned char)(i * 31 + i / 256);
        ck_ok(cu.cuMemcpyHtoD(first, out, sizeof(out)));
        ck_ok(cu.cuMemcpyDtoD(second, first, sizeof(out)));
        ck_ok(cu.cuMemcpyDtoH(in, second, sizeof(in)));
        ck_assert_mem_eq(in, out, sizeof(out));
        /* Part of it, moved by one byte. */
        ck_ok(cu.cuMemcpyDtoD(second + 1, first, 1000));
        ck_ok(cu.cuMemcpyDtoH(in, second, 1001));
        ck_assert_uint_eq(in[0], out[0]);
        ck_assert_mem_eq(in + 1, out, 1000);
}
END_TEST

START_TEST(one_copy_knows_both_sides)
{
        unsigned char out[512], in[512] = {0};
        CUdeviceptr address;

        (void)contract_context();
        address = alloc(sizeof(out));
        memset(out, 0x6E, sizeof(out));
        ck_ok(cu.cuMemcpy(address, (CUdeviceptr)(uintptr_t)out, sizeof(out)));
        ck_ok(cu.cuMemcpy((CUdeviceptr)(uintptr_t)in, address, sizeof(in)));
        ck_assert_mem_eq(in, out, sizeof(out));
}
END_TEST

START_TEST(nothing_is_copied_for_zero_bytes)
{
        unsigned char byte = 3;
        CUdeviceptr address;

        (void)contract_context();
        address = alloc(4096);
        contract_write(address, 9);
        ck_ok(cu.cuMemcpyHtoD(address, &byte, 0));
        ck_ok(cu.cuMemsetD8(address, 7, 0));
        ck_assert_uint_eq(contract_read(address), 9);
}
END_TEST

START_TEST(memset_fills_bytes_and_words)
{
        uint32_t words[1024];
        CUdeviceptr address;

        (void)contract_context();
        address = alloc(sizeof(words));
        ck_ok(cu.cuMemsetD8(address, 0x12, sizeof(words)));
        ck_ok(cu.cuMemsetD32(address + 4, 0xA1B2C3D4, 1022));
        ck_ok(cu.cuMemcpyDtoH(words, address, sizeof(words)));
        ck_assert_uint_eq(words[0], 0x12121212);
        ck_assert_uint_eq(words[1], 0xA1B2C3D4);
        ck_assert_uint_eq(words[1022], 0xA1B2C3D4);
        ck_assert_uint_eq(words[1023], 0x12121212);
        ck_ok(cu.cuMemsetD8(address + 1, 0x99, 5));
        ck_ok(cu.cuMemcpyDtoH(words, address, sizeof(words)));
        ck_assert_uint_eq(words[0], 0x99999912);
        ck_assert_uint_eq(words[1], 0xA1B29999);
        ck_cuda(INVALID, cu.cuMemsetD32(address + 2, 1, 1));
}
END_TEST

START_TEST(an_address_range_is_that_of_the_allocation)
{
        CUdeviceptr address, base = 0;
        size_t n_bytes = 0;
        int local;

        (void)contract_context();
        address = alloc(LARGE);
        ck_ok(cu.cuMemGetAddressRange(&base, &n_bytes, address + 12345));
        ck_assert_uint_eq(base, address);
        ck_assert_uint_eq(n_bytes, LARGE);
        ck_ok(cu.cuMemGetAddressRange(NULL, &n_bytes, address));
        ck_cuda(CUDA_ERROR_NOT_FOUND,
                cu.cuMemGetAddressRange(&base, &n_bytes, (CUdeviceptr)(uintptr_t)&local));
}
END_TEST

START_TEST(attributes_of_allocated_memory)
{
        CUcontext context = contract_context(), found_context = NULL;
        CUdeviceptr address = alloc(LARGE), base = 0;
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
END_TEST

START_TEST(attributes_of_mapped_memory)
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
END_TEST

START_TEST(unknown_pointers_have_no_attributes)
{
        CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                        CU_POINTER_ATTRIBUTE_RANGE_SIZE};
        unsigned int type = 7;
        size_t n_bytes = 7;
        void *answers[] = {&type, &n_bytes};
        CUdeviceptr unknown, address;

        (void)contract_context();
        unknown = (CUdeviceptr)(uintptr_t)&type;
        ck_cuda(INVALID,
                cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, unknown));
        ck_ok(cu.cuPointerGetAttributes(2, wanted, answers, unknown));
        ck_assert_uint_eq(type, 0);
        ck_assert_uint_eq(n_bytes, 0);
        address = alloc(LARGE);
        ck_ok(cu.cuPointerGetAttributes(2, wanted, answers, address));
        ck_assert_uint_eq(type, CU_MEMORYTYPE_DEVICE);
        ck_assert_uint_eq(n_bytes, LARGE);
        ck_ok(cu.cuMemFree(address));
        ck_cuda(INVALID,
                cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
}
END_TEST

int main(void)
{
        Suite *suite = suite_create("memory");
        TCase *tcase = contract_case(suite, "memory");

        tcase_add_test(tcase, alloc_takes_and_free_returns);
        tcase_add_test(tcase, free_waits_for_all_work_of_the_context);
        tcase_add_test(tcase, alloc_and_free_refuse);
        tcase_add_test(tcase, allocated_memory_is_not_the_virtual_interface_s);
        tcase_add_test(tcase, memory_allocated_again_is_zero);
        tcase_add_test(tcase, bytes_go_there_and_back);
        tcase_add_test(tcase, one_copy_knows_both_sides);
        tcase_add_test(tcase, nothing_is_copied_for_zero_bytes);
        tcase_add_test(tcase, memset_fills_bytes_and_words);
        tcase_add_test(tcase, an_address_range_is_that_of_the_allocation);
        tcase_add_test(tcase, attributes_of_allocated_memory);
        tcase_add_test(tcase, attributes_of_mapped_memory);
        tcase_add_test(tcase, unknown_pointers_have_no_attributes);
        return contract_main(suite);
}
