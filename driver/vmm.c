/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/vmm.h"

#include <fcntl.h>

#include "base/err.h"
#include "base/fdset.h"
#include "gpumem.h"

static CUmemAllocationProp properties_at(CUmemLocation location)
{
        return (CUmemAllocationProp){
                .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                .location = location,
        };
}

static CUmemLocation device_at(int ordinal)
{
        return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal};
}

static CUmemLocation node_at(int node)
{
        return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = node};
}

static CUmemAccessDesc access_from(CUmemLocation location)
{
        return (CUmemAccessDesc){.location = location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
}

int vmm_granularity(const struct cuda *cuda, int ordinal, uint64_t *ret_bytes)
{
        CUmemAllocationProp properties = properties_at(device_at(ordinal));
        size_t n_bytes;
        int r;

        r = CUDA_CALL(cuda, cuMemGetAllocationGranularity, &n_bytes, &properties,
                      CU_MEM_ALLOC_GRANULARITY_MINIMUM);
        if (r)
                return r;
        *ret_bytes = n_bytes;
        return 0;
}

static int allocate(const struct cuda *cuda, const CUmemAllocationProp *properties,
                    uint64_t n_bytes, uint64_t *ret_handle)
{
        CUmemGenericAllocationHandle handle;
        int r;

        r = CUDA_CALL(cuda, cuMemCreate, &handle, n_bytes, properties, 0);
        if (r)
                return r;
        *ret_handle = handle;
        return 0;
}

int vmm_allocate(const struct cuda *cuda, int ordinal, uint64_t n_bytes, enum vmm_reach reach,
                 uint64_t *ret_handle)
{
        CUmemAllocationProp properties = properties_at(device_at(ordinal));

        properties.allocFlags.gpuDirectRDMACapable = reach == VMM_RDMA;
        return allocate(cuda, &properties, n_bytes, ret_handle);
}

int vmm_allocate_host(const struct cuda *cuda, int node, uint64_t n_bytes, uint64_t *ret_handle)
{
        CUmemAllocationProp properties = properties_at(node_at(node));

        return allocate(cuda, &properties, n_bytes, ret_handle);
}

int vmm_export(const struct cuda *cuda, uint64_t handle, int *ret_fd)
{
        int fd, r;

        r = CUDA_CALL(cuda, cuMemExportToShareableHandle, &fd, handle,
                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
        if (r)
                return r;
        *ret_fd = fd;
        return 0;
}

int vmm_create(const struct cuda *cuda, int ordinal, uint64_t n_bytes, uint64_t *ret_handle,
               int *ret_fd)
{
        uint64_t handle;
        int fd, r;

        r = vmm_allocate(cuda, ordinal, n_bytes, VMM_DEVICES, &handle);
        if (r)
                return r;
        r = vmm_export(cuda, handle, &fd);
        if (r) {
                (void)vmm_release(cuda, handle);
                return r;
        }
        *ret_handle = handle;
        *ret_fd = fd;
        return 0;
}

int vmm_import(const struct cuda *cuda, int fd, uint64_t *ret_handle)
{
        CUmemGenericAllocationHandle handle;
        int r;

        r = CUDA_CALL(cuda, cuMemImportFromShareableHandle, &handle, (void *)(intptr_t)fd,
                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
        if (r)
                return r;
        *ret_handle = handle;
        return 0;
}

int vmm_retain(const struct cuda *cuda, uint64_t address, uint64_t *ret_handle)
{
        CUmemGenericAllocationHandle handle;
        int r;

        r = CUDA_CALL(cuda, cuMemRetainAllocationHandle, &handle, (void *)(uintptr_t)address);
        if (r)
                return r;
        *ret_handle = handle;
        return 0;
}

int vmm_release(const struct cuda *cuda, uint64_t handle)
{
        return CUDA_CALL(cuda, cuMemRelease, handle);
}

int vmm_reserve(const struct cuda *cuda, uint64_t n_bytes, uint64_t *ret_address)
{
        CUdeviceptr address;
        int r;

        r = CUDA_CALL(cuda, cuMemAddressReserve, &address, n_bytes, 0, 0, 0);
        if (r)
                return r;
        *ret_address = address;
        return 0;
}

int vmm_unreserve(const struct cuda *cuda, uint64_t address, uint64_t n_bytes)
{
        return CUDA_CALL(cuda, cuMemAddressFree, address, n_bytes);
}

static int map_for(const struct cuda *cuda, uint64_t address, uint64_t n_bytes, uint64_t handle,
                   const CUmemAccessDesc *access, size_t n_access)
{
        int r = CUDA_CALL(cuda, cuMemMap, address, n_bytes, 0, handle, 0);

        if (r)
                return r;
        r = CUDA_CALL(cuda, cuMemSetAccess, address, n_bytes, access, n_access);
        if (r && vmm_unmap(cuda, address, n_bytes))
                return -ENOTRECOVERABLE;
        return r;
}

int vmm_map(const struct cuda *cuda, int ordinal, uint64_t address, uint64_t n_bytes,
            uint64_t handle)
{
        CUmemAccessDesc access = access_from(device_at(ordinal));

        return map_for(cuda, address, n_bytes, handle, &access, 1);
}

int vmm_allow(const struct cuda *cuda, uint64_t devices, uint64_t address, uint64_t n_bytes)
{
        CUmemAccessDesc access[VMM_DEVICES_MAX];
        size_t n_access = 0;

        for (int ordinal = 0; ordinal < VMM_DEVICES_MAX; ordinal++) {
                if (devices & vmm_device(ordinal))
                        access[n_access++] = access_from(device_at(ordinal));
        }
        return CUDA_CALL(cuda, cuMemSetAccess, address, n_bytes, access, n_access);
}

int vmm_map_host(const struct cuda *cuda, int node, uint64_t address, uint64_t n_bytes,
                 uint64_t handle)
{
        CUmemAccessDesc access[1 + VMM_DEVICES_MAX] = {access_from(node_at(node))};
        int count, r;

        r = CUDA_CALL(cuda, cuDeviceGetCount, &count);
        if (r)
                return r;
        if (count > VMM_DEVICES_MAX)
                return -E2BIG;
        for (int ordinal = 0; ordinal < count; ordinal++)
                access[1 + ordinal] = access_from(device_at(ordinal));
        return map_for(cuda, address, n_bytes, handle, access, 1 + (size_t)count);
}

int vmm_export_dma_buf(const struct cuda *cuda, uint64_t address, uint64_t n_bytes, int *ret_fd)
{
        CLEANUP(closep)
        int fd = -1;
        int r;

        if (!cuda->cuMemGetHandleForAddressRange)
                return GPUMEM_E_UNSUPPORTED;
        r = CUDA_CALL(cuda, cuMemGetHandleForAddressRange, &fd, address, n_bytes,
                      CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
        if (r)
                return r;
        /* NVIDIA's kernel module makes it close-on-exec; the header of CUDA does not promise that. */
        r = fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 ? err_errno() : 0;
        if (!r)
                *ret_fd = steal_fd(&fd);
        return r;
}

int vmm_unmap(const struct cuda *cuda, uint64_t address, uint64_t n_bytes)
{
        return CUDA_CALL(cuda, cuMemUnmap, address, n_bytes);
}
