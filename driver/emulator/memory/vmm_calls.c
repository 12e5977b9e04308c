/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's virtual memory calls: handles, their export and import, reservations, mappings.
 * They need cuInit, but no context. */
#include <cuda.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "driver/emulator/machine/emulator.h"
#include "driver/emulator/machine/handle.h"
#include "driver/emulator/memory/address.h"
#include "driver/emulator/memory/allocation.h"

#define POSIX_FD CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static bool is_whole(uint64_t n_bytes)
{
        return n_bytes && n_bytes % EMULATOR_GRANULE == 0;
}

static bool numa_node_exists(int node)
{
        char path[64];

        (void)snprintf(path, sizeof(path), "/sys/devices/system/node/node%d", node);
        return node == 0 || (node > 0 && access(path, F_OK) == 0);
}

static CUresult location_check(const CUmemLocation *location, struct store **ret_store)
{
        if (location->type == CU_MEM_LOCATION_TYPE_DEVICE) {
                if (location->id < 0 || (unsigned)location->id >= emulator_get()->n_devices)
                        return CUDA_ERROR_INVALID_DEVICE;
                *ret_store = emulator_store((unsigned)location->id);
                return CUDA_SUCCESS;
        }
        if (location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA && numa_node_exists(location->id)) {
                *ret_store = &emulator_get()->directory.host;
                return CUDA_SUCCESS;
        }
        return CUDA_ERROR_INVALID_VALUE;
}

static CUresult properties_check(const CUmemAllocationProp *properties, struct store **ret_store)
{
        if (!properties || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
            properties->win32HandleMetaData)
                return CUDA_ERROR_INVALID_VALUE;
        if (properties->requestedHandleTypes == CU_MEM_HANDLE_TYPE_FABRIC)
                return CUDA_ERROR_NOT_PERMITTED; /* there is no IMEX channel */
        if ((unsigned)properties->requestedHandleTypes & ~(unsigned)POSIX_FD)
                return CUDA_ERROR_INVALID_VALUE;
        if (properties->allocFlags.compressionType || properties->allocFlags.usage)
                return CUDA_ERROR_NOT_SUPPORTED;
        return location_check(&properties->location, ret_store);
}

EMULATOR_API CUresult CUDAAPI cuMemGetAllocationGranularity(size_t *ret_granularity,
                                                            const CUmemAllocationProp *properties,
                                                            CUmemAllocationGranularity_flags option)
{
        struct store *store;
        CUresult r = emulator_enter_delayed(__func__);

        if (r != CUDA_SUCCESS)
                return r;
        if (!ret_granularity || (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
                                 option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
                return CUDA_ERROR_INVALID_VALUE;
        r = properties_check(properties, &store);
        if (r == CUDA_SUCCESS)
                *ret_granularity = EMULATOR_GRANULE;
        return r;
}

/* Gives a new allocation its handle; consumes the caller's count. */
static CUresult handle_give(struct allocation *take_allocation, CUmemGenericAllocationHandle *ret)
{
        CUresult r;

        emulator_lock();
        r = allocation_add_handle(take_allocation, ret);
        emulator_unlock();
        if (r != CUDA_SUCCESS)
                (void)allocation_unref(take_allocation);
        return r;
}

EMULATOR_API CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *ret_handle, size_t n_bytes,
                                          const CUmemAllocationProp *properties,
                                          unsigned long long flags)
{
        struct allocation *allocation;
        struct store *store;
        CUresult r = emulator_enter_delayed(__func__);

        if (r != CUDA_SUCCESS)
                return r;
        if (!ret_handle || flags || !is_whole(n_bytes))
                return CUDA_ERROR_INVALID_VALUE;
        r = properties_check(properties, &store);
        if (r == CUDA_SUCCESS)
                r = allocation_new(store, properties, n_bytes, &allocation);
        return r == CUDA_SUCCESS ? handle_give(allocation, ret_handle) : r;
}

EMULATOR_API CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle)
{
        struct allocation *allocation;
        unsigned n_left = 1;
        CUresult r = emulator_enter_delayed(__func__);

        if (r != CUDA_SUCCESS)
                return r;
        emulator_lock();
        allocation = allocation_find(handle);
        if (allocation) {
                n_left = --allocation->n_handles;
                if (!n_left)
                        handle_free(HANDLE_MEMORY, (uintptr_t)handle);
        }
        emulator_unlock();
        if (!n_left)
                (void)allocation_unref(allocation);
        return allocation ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EMULATOR_API CUresult CUDAAPI cuMemExportToShareableHandle(void *ret_fd,
                                                           CUmemGenericAllocationHandle handle,
                                                           CUmemAllocationHandleType type,
                                                           unsigned long long flags)
{
        const struct allocation *allocation;
        CUresult r = emulator_enter_delayed(__func__);
        int fd = -1;

        if (r != CUDA_SUCCESS)
                return r;
        if (!ret_fd || flags || type != POSIX_FD)
                return CUDA_ERROR_INVALID_VALUE;
        emulator_lock();
        allocation = allocation_find(handle);
        if (!allocation || allocation->origin != ALLOCATION_CREATED ||
            !((unsigned)allocation->properties.requestedHandleTypes & (unsigned)POSIX_FD))
                r = CUDA_ERROR_INVALID_VALUE;
        else
                fd = fcntl(allocation->hold.fd, F_DUPFD_CLOEXEC, 0);
        emulator_unlock();
        if (r != CUDA_SUCCESS)
                return r;
        if (fd < 0)
                return CUDA_ERROR_OPERATING_SYSTEM;
        *(int *)ret_fd = fd;
        return CUDA_SUCCESS;
}

EMULATOR_API CUresult CUDAAPI cuMemImportFromShareableHandle(
        CUmemGenericAllocationHandle *ret_handle, void *os_handle, CUmemAllocationHandleType type)
{
        struct allocation *allocation;
        CUresult r = emulator_enter_delayed(__func__);

        if (r != CUDA_SUCCESS)
                return r;
        if (!ret_handle || type != POSIX_FD)
                return CUDA_ERROR_INVALID_VALUE;
        r = allocation_import((int)(intptr_t)os_handle, &allocation);
        return r == CUDA_SUCCESS ? handle_give(allocation, ret_handle) : r;
}

EMULATOR_API CUresult CUDAAPI cuMemGetAllocationPropertiesFromHandle(
        CUmemAllocationProp *ret_properties, CUmemGenericAllocationHandle handle)
{
        const struct allocation *allocation;
        CUresult r = emulator_enter(__func__);

        if (r != CUDA_SUCCESS)
                return r;
        emulator_lock();
        allocation = allocation_find(handle);
        if (allocation && ret_properties)
                *ret_properties = allocation->properties;
        emulator_unlock();
        return allocation && ret_properties ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult retain_locked(uint64_t address, CUmemGenericAllocationHandle *ret_handle)
{
        struct mapping *mapping = mapping_find_locked(address);
        enum { WITHOUT, WITH } before;
        CUresult r;

        if (!mapping || mapping->reservation->kind != RESERVATION_VIRTUAL)
                return CUDA_ERROR_INVALID_VALUE;
        before = mapping->allocation->n_handles ? WITH : WITHOUT;
        r = allocation_add_handle(mapping->allocation, ret_handle);
        /* Its handles hold one count, however many they are. */
        if (r == CUDA_SUCCESS && before == WITHOUT)
                (void)allocation_ref(mapping->allocation);
        return r;
}

EMULATOR_API CUresult CUDAAPI cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *ret_handle,
                                                          void *address)
{
        CUresult r = emulator_enter(__func__);

        if (r != CUDA_SUCCESS)
                return r;
        if (!ret_handle)
                return CUDA_ERROR_INVALID_VALUE;
        emulator_lock();
        r = retain_locked((uintptr_t)address, ret_handle);
        emulator_unlock();
        return r;
}

EMULATOR_API CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr *ret_address, size_t n_bytes,
                                                  size_t alignment, CUdeviceptr hint,
                                                  unsigned long long flags)
{
        const struct reservation like = {.kind = RESERVATION_VIRTUAL};
        struct reservation *reservation;
        CUresult r = emulator_enter_delayed(__func__);

        if (r != CUDA_SUCCESS)
                return r;
        if (!ret_address || flags || !is_whole(n_bytes) || alignment & (alignment - 1))
                return CUDA_ERROR_INVALID_VALUE;
        r = reservation_new(&like, n_bytes, alignment, hint, &reservation);
        if (r == CUDA_SUCCESS)
                *ret_address = reservation->range.base;
        return r;
}

EMULATOR_API CUresult CUDAAPI cuMemAddressFree(CUdeviceptr base, size_t n_bytes)
{
        CUresult r = emulator_enter_delayed(__func__);

        return r == CUDA_SUCCESS ? reservation_free(RESERVATION_VIRTUAL, base, n_bytes) : r;
}

EMULATOR_API CUresult CUDAAPI cuMemMap(CUdeviceptr base, size_t n_bytes, size_t offset,
                                       CUmemGenericAllocationHandle handle,
                                       unsigned long long flags)
{
        struct allocation *allocation;
        CUresult r = emulator_enter_delayed(__func__);

        if (r != CUDA_SUCCESS)
                return r;
        if (flags || !n_bytes || base % EMULATOR_GRANULE || offset % EMULATOR_GRANULE)
                return CUDA_ERROR_INVALID_VALUE;
        emulator_lock();
        allocation = allocation_find(handle);
        if (allocation)
                (void)allocation_ref(allocation);
        emulator_unlock();
        if (!allocation)
                return CUDA_ERROR_INVALID_VALUE;
        if (offset || n_bytes != allocation->hold.n_bytes)
                r = CUDA_ERROR_NOT_SUPPORTED;
        else
                r = mapping_new(RESERVATION_VIRTUAL, base, allocation);
        (void)allocation_unref(allocation);
        return r;
}

EMULATOR_API CUresult CUDAAPI cuMemUnmap(CUdeviceptr base, size_t n_bytes)
{
        CUresult r = emulator_enter_delayed(__func__);

        if (r != CUDA_SUCCESS)
                return r;
        if (!is_whole(n_bytes) || base % EMULATOR_GRANULE)
                return CUDA_ERROR_INVALID_VALUE;
        return mapping_free(RESERVATION_VIRTUAL, base, n_bytes);
}

EMULATOR_API CUresult CUDAAPI cuMemSetAccess(CUdeviceptr base, size_t n_bytes,
                                             const CUmemAccessDesc *access, size_t n_access)
{
        CUresult r = emulator_enter_delayed(__func__);

        if (r != CUDA_SUCCESS)
                return r;
        if (!access || !n_access)
                return CUDA_ERROR_INVALID_VALUE;
        return mapping_set_access(RESERVATION_VIRTUAL, base, n_bytes, access, n_access);
}
