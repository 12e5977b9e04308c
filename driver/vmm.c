#include "driver/vmm.h"

static CUmemAllocationProp block_properties(int ordinal)
{
        return (CUmemAllocationProp){
                .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal},
        };
}

int vmm_granularity(const struct cuda *cuda, int ordinal, uint64_t *ret_bytes)
{
        CUmemAllocationProp properties = block_properties(ordinal);
        size_t n_bytes;
        int r;

        r = CUDA_CALL(cuda, cuMemGetAllocationGranularity, &n_bytes, &properties,
                      CU_MEM_ALLOC_GRANULARITY_MINIMUM);
        if (r)
                return r;
        *ret_bytes = n_bytes;
        return 0;
}

int vmm_create(const struct cuda *cuda, int ordinal, uint64_t n_bytes, uint64_t *ret_handle,
               int *ret_fd)
{
        CUmemAllocationProp properties = block_properties(ordinal);
        CUmemGenericAllocationHandle handle;
        int fd, r;

        r = CUDA_CALL(cuda, cuMemCreate, &handle, n_bytes, &properties, 0);
        if (r)
                return r;
        r = CUDA_CALL(cuda, cuMemExportToShareableHandle, &fd, handle,
                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
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

int vmm_map(const struct cuda *cuda, int ordinal, uint64_t address, uint64_t n_bytes,
            uint64_t handle)
{
        CUmemAccessDesc access = {
                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal},
                .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        int r;

        r = CUDA_CALL(cuda, cuMemMap, address, n_bytes, 0, handle, 0);
        if (r)
                return r;
        r = CUDA_CALL(cuda, cuMemSetAccess, address, n_bytes, &access, 1);
        if (r)
                (void)vmm_unmap(cuda, address, n_bytes);
        return r;
}

int vmm_unmap(const struct cuda *cuda, uint64_t address, uint64_t n_bytes)
{
        return CUDA_CALL(cuda, cuMemUnmap, address, n_bytes);
}
