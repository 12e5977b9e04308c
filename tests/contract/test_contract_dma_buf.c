/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the virtual memory interface as a dma-buf. What an importer does with it takes a network adapter; that the
 * emulated one has the same bytes shows tests/live/sharing/test_registered.c. */
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "tests/contract/contract.h"

#define GRANULE CONTRACT_GRANULE
#define POSIX   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define DMA_BUF CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD
#define INVALID CUDA_ERROR_INVALID_VALUE
#define LARGE   ((size_t)256 << 20)
#define PAGE    ((size_t)4096)

static int export(CUdeviceptr address, size_t n_bytes)
{
        int fd = -1;

        ck_ok(cu.cuMemGetHandleForAddressRange(&fd, address, n_bytes, DMA_BUF, 0));
        ck_assert_int_ge(fd, 0);
        return fd;
}

/* Made for network adapters or not. */
TEST(memory_is_exported_and_closed_on_exec, .to = 2)
{
        CUmemAllocationProp properties = contract_properties(POSIX);
        CUmemGenericAllocationHandle handle;
        struct contract_block block;
        int fd;

        (void)contract_context();
        properties.allocFlags.gpuDirectRDMACapable = (unsigned char)_i;
        ck_ok(cu.cuMemCreate(&handle, GRANULE, &properties, 0));
        block = contract_map(handle, GRANULE);
        fd = export(block.address, GRANULE);
        ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
        ck_assert_int_eq(close(fd), 0);
        contract_unmap(&block);
}

/* As the library's memory is. */
TEST(what_is_imported_is_exported)
{
        struct contract_block block;
        int memory;

        (void)contract_context();
        memory = contract_export(contract_create(GRANULE, POSIX));
        block = contract_map(contract_import(memory), GRANULE);
        ck_assert_int_eq(close(export(block.address, GRANULE)), 0);
        contract_unmap(&block);
}

TEST(a_part_is_exported)
{
        struct contract_block block;

        (void)contract_context();
        block = contract_map(contract_create(2 * GRANULE, POSIX), 2 * GRANULE);
        ck_assert_int_eq(close(export(block.address + PAGE, PAGE)), 0);
        ck_assert_int_eq(close(export(block.address + GRANULE - PAGE, 2 * PAGE)), 0);
        contract_unmap(&block);
}

TEST(it_keeps_the_memory_until_it_is_closed)
{
        struct contract_block block;
        size_t n_held;
        int fd, n_looks = 0;

        (void)contract_context();
        block = contract_map(contract_create(LARGE, POSIX), LARGE);
        fd = export(block.address, LARGE);
        n_held = contract_free_bytes();
        ck_ok(cu.cuMemRelease(block.handle));
        ck_ok(cu.cuMemUnmap(block.address, LARGE));
        ck_assert_uint_lt(contract_free_bytes(), n_held + LARGE / 2);
        ck_assert_int_eq(close(fd), 0);
        while (contract_free_bytes() < n_held + LARGE / 2)
                contract_pause(&n_looks);
}

TEST(a_wrong_range_is_refused)
{
        struct contract_block block;
        int fd = -77;

        (void)contract_context();
        block = contract_map(contract_create(GRANULE, POSIX), GRANULE);
        ck_cuda(INVALID,
                cu.cuMemGetHandleForAddressRange(&fd, block.address + 512, PAGE, DMA_BUF, 0));
        ck_cuda(INVALID, cu.cuMemGetHandleForAddressRange(&fd, block.address, 512, DMA_BUF, 0));
        ck_cuda(INVALID, cu.cuMemGetHandleForAddressRange(&fd, block.address, 0, DMA_BUF, 0));
        ck_cuda(INVALID, cu.cuMemGetHandleForAddressRange(NULL, block.address, PAGE, DMA_BUF, 0));
        ck_assert_int_eq(fd, -77);
        ck_assert_int_ne(
                cu.cuMemGetHandleForAddressRange(&fd, block.address, 2 * GRANULE, DMA_BUF, 0),
                CUDA_SUCCESS);
        ck_assert_int_eq(fd, -1);
        fd = -77;
        contract_unmap(&block);
        ck_assert_int_ne(cu.cuMemGetHandleForAddressRange(&fd, block.address, PAGE, DMA_BUF, 0),
                         CUDA_SUCCESS);
        ck_assert_int_eq(fd, -1);
}

static bool has_dma_bufs(void)
{
        return contract_has("cuMemGetHandleForAddressRange");
}

CONTRACT_MAIN("dma-bufs", .can_run = has_dma_bufs, .needs = "cuMemGetHandleForAddressRange")
