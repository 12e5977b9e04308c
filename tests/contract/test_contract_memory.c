/* SPDX-License-Identifier: Apache-2.0 */
/* cuMemAlloc, and copies that wait. */
#include <string.h>

#include "tests/contract/contract.h"

#define GRANULE CONTRACT_GRANULE
#define INVALID CUDA_ERROR_INVALID_VALUE
#define LARGE   ((size_t)128 << 20)

TEST(alloc_takes_and_free_returns)
{
        size_t n_before, n_held;
        CUdeviceptr address;

        (void)contract_context();
        n_before = contract_free_bytes();
        address = contract_alloc(LARGE);
        ck_assert_uint_eq(address % 512, 0);
        n_held = contract_free_bytes();
        ck_assert_uint_le(n_held, n_before - LARGE);
        ck_ok(cu.cuMemFree(address));
        ck_assert_uint_ge(contract_free_bytes(), n_held + LARGE);
}

TEST(free_waits_for_all_work_of_the_context)
{
        struct contract_gate gate;
        CUdeviceptr address = contract_alloc(LARGE);
        CUstream stream = contract_stream(CU_STREAM_NON_BLOCKING);

        contract_hold(stream, &gate);
        ck_ok(cu.cuMemsetD8Async(address, 1, LARGE / 8, stream));
        contract_await(&gate);
        contract_open_later(&gate);
        ck_ok(cu.cuMemFree(address));
        ck_ok(cu.cuStreamQuery(stream));
}

/* More than any device has free. */
static size_t too_many_bytes(void)
{
        size_t n_total;

        ck_ok(cu.cuDeviceTotalMem(&n_total, 0));
        return n_total + 1;
}

TEST(alloc_refuses_zero_bytes)
{
        CUdeviceptr address;

        (void)contract_context();
        ck_cuda(INVALID, cu.cuMemAlloc(&address, 0));
}

TEST(alloc_of_zero_bytes_gives_no_address)
{
        CUdeviceptr address = 77;

        (void)contract_context();
        (void)cu.cuMemAlloc(&address, 0);
        ck_assert_uint_eq(address, 0);
}

TEST(alloc_needs_an_output)
{
        (void)contract_context();
        ck_cuda(INVALID, cu.cuMemAlloc(NULL, 4096));
}

TEST(alloc_beyond_the_device_is_out_of_memory)
{
        CUdeviceptr address;

        (void)contract_context();
        ck_cuda(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc(&address, too_many_bytes()));
}

TEST(alloc_beyond_the_device_gives_no_address)
{
        CUdeviceptr address = 77;

        (void)contract_context();
        (void)cu.cuMemAlloc(&address, too_many_bytes());
        ck_assert_uint_eq(address, 0);
}

TEST(free_of_nothing_is_no_fault)
{
        (void)contract_context();
        ck_ok(cu.cuMemFree(0));
}

TEST(free_refuses_an_address_inside)
{
        CUdeviceptr address = contract_alloc(GRANULE);

        ck_cuda(INVALID, cu.cuMemFree(address + 512));
        ck_ok(cu.cuMemFree(address));
}

TEST(free_refuses_what_was_freed)
{
        CUdeviceptr address = contract_alloc(GRANULE);

        ck_ok(cu.cuMemFree(address));
        ck_cuda(INVALID, cu.cuMemFree(address));
}

TEST(allocated_memory_is_not_the_virtual_interface_s)
{
        struct contract_block block;
        CUdeviceptr address = contract_alloc(GRANULE);

        ck_cuda(INVALID, cu.cuMemUnmap(address, GRANULE));
        ck_cuda(INVALID, cu.cuMemAddressFree(address, GRANULE));
        block = contract_map(contract_create(GRANULE, CU_MEM_HANDLE_TYPE_NONE), GRANULE);
        ck_cuda(INVALID, cu.cuMemFree(block.address));
        contract_write(block.address, 1);
        contract_write(address, 1);
}

TEST(memory_allocated_again_is_zero)
{
        enum { TRIES = 4 };

        (void)contract_context();
        for (int i = 0; i < TRIES; i++) {
                CUdeviceptr address = contract_alloc(GRANULE);
                unsigned char bytes[4096];

                ck_ok(cu.cuMemcpyDtoH(bytes, address + GRANULE / 2, sizeof(bytes)));
                for (size_t j = 0; j < sizeof(bytes); j++)
                        ck_assert_uint_eq(bytes[j], 0);
                ck_ok(cu.cuMemsetD8(address, 0xCD, GRANULE));
                ck_ok(cu.cuMemFree(address));
        }
}

TEST(bytes_go_there_and_back)
{
        unsigned char out[100000], in[sizeof(out)];
        CUdeviceptr first = contract_alloc(sizeof(out)), second = contract_alloc(sizeof(out));

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

TEST(one_copy_knows_both_sides)
{
        unsigned char out[512], in[512] = {0};
        CUdeviceptr address = contract_alloc(sizeof(out));

        memset(out, 0x6E, sizeof(out));
        ck_ok(cu.cuMemcpy(address, (CUdeviceptr)(uintptr_t)out, sizeof(out)));
        ck_ok(cu.cuMemcpy((CUdeviceptr)(uintptr_t)in, address, sizeof(in)));
        ck_assert_mem_eq(in, out, sizeof(out));
}

TEST(nothing_is_copied_for_zero_bytes)
{
        unsigned char byte = 3;
        CUdeviceptr address = contract_alloc(4096);

        contract_write(address, 9);
        ck_ok(cu.cuMemcpyHtoD(address, &byte, 0));
        ck_ok(cu.cuMemsetD8(address, 7, 0));
        ck_assert_uint_eq(contract_read(address), 9);
}

TEST(memset_fills_bytes_and_words)
{
        uint32_t words[1024];
        CUdeviceptr address = contract_alloc(sizeof(words));

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

CONTRACT_MAIN("memory")
