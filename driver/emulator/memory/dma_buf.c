/* SPDX-License-Identifier: Apache-2.0 */
/* cuMemGetHandleForAddressRange: mapped device memory as a dma-buf. The emulated one is the file of the device's memory, at the
 * position where the allocation begins, so that a test reads the bytes as a network adapter would. It keeps the memory, as a
 * dma-buf does. Unlike one it tells nothing of a range within the allocation, and could be imported as memory. */
#include <cuda.h>
#include <fcntl.h>
#include <unistd.h>

#include "driver/emulator/machine/emulator.h"
#include "driver/emulator/memory/address.h"
#include "driver/emulator/memory/allocation.h"

static bool is_aligned(uint64_t address, uint64_t n_bytes)
{
        uint64_t n_page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);

        return n_bytes && address % n_page_bytes == 0 && n_bytes % n_page_bytes == 0;
}

/* Within one mapping; memory of several stitched ones is not emulated. As the real driver does, it writes -1 for a range
 * that it refuses. */
static CUresult dma_buf_locked(uint64_t address, uint64_t n_bytes, int *ret_fd)
{
        const struct mapping *mapping = mapping_find_locked(address);
        const struct allocation *allocation;
        int fd;

        *ret_fd = -1;
        if (!mapping || n_bytes > mapping->range.base + mapping->range.n_bytes - address)
                return CUDA_ERROR_INVALID_VALUE;
        allocation = mapping->allocation;
        if (allocation->properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
                return CUDA_ERROR_NOT_SUPPORTED;
        fd = fcntl(allocation->hold.fd, F_DUPFD_CLOEXEC, 0);
        if (fd < 0)
                return CUDA_ERROR_OPERATING_SYSTEM;
        *ret_fd = fd;
        return CUDA_SUCCESS;
}

EMULATOR_API CUresult CUDAAPI cuMemGetHandleForAddressRange(void *ret_handle, CUdeviceptr address,
                                                            size_t n_bytes,
                                                            CUmemRangeHandleType type,
                                                            unsigned long long flags)
{
        CUresult r = emulator_enter_delayed(__func__);

        if (r != CUDA_SUCCESS)
                return r;
        if (!ret_handle || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD ||
            flags & ~(unsigned long long)CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE ||
            !is_aligned(address, n_bytes))
                return CUDA_ERROR_INVALID_VALUE;
        emulator_lock();
        r = dma_buf_locked(address, n_bytes, ret_handle);
        emulator_unlock();
        return r;
}
