/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/emulator/memory/allocation.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "driver/emulator/machine/emulator.h"
#include "driver/emulator/machine/handle.h"
#include "driver/emulator/machine/ranges.h"

static CUresult allocation_open(struct store *store, struct store_hold *take_hold,
                                struct allocation **ret_allocation)
{
        struct allocation *allocation = calloc(1, sizeof(*allocation));
        void *bytes = MAP_FAILED;

        if (allocation)
                bytes = mmap(NULL, take_hold->n_bytes, PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_NORESERVE, take_hold->fd, (off_t)take_hold->base);
        if (bytes == MAP_FAILED) {
                free(allocation);
                store_release(store, take_hold);
                return CUDA_ERROR_OUT_OF_MEMORY;
        }
        *allocation = (struct allocation){
                .refs = 1, .store = store, .hold = *take_hold, .bytes = bytes};
        *ret_allocation = allocation;
        return CUDA_SUCCESS;
}

/* The application touches it by itself, so there must be pages before it does. */
static CUresult back_host_memory(struct store *store, const CUmemAllocationProp *properties,
                                 struct store_hold *take_hold)
{
        CUresult r = CUDA_SUCCESS;

        if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
                r = emulator_result(store_back(take_hold, 0, take_hold->n_bytes));
        if (r != CUDA_SUCCESS)
                store_release(store, take_hold);
        return r;
}

CUresult allocation_new(struct store *store, const CUmemAllocationProp *properties,
                        uint64_t n_bytes, struct allocation **ret_allocation)
{
        struct allocation *allocation;
        struct store_hold hold;
        uint32_t flags = 0;
        CUresult r;

        if (properties->requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
                flags |= RANGE_EXPORTABLE;
        if (properties->allocFlags.gpuDirectRDMACapable)
                flags |= RANGE_RDMA_CAPABLE;
        r = emulator_result(store_create(store, n_bytes, flags, &hold));
        if (r == CUDA_SUCCESS)
                r = back_host_memory(store, properties, &hold);
        if (r == CUDA_SUCCESS)
                r = allocation_open(store, &hold, &allocation);
        if (r != CUDA_SUCCESS)
                return r;
        allocation->origin = ALLOCATION_CREATED;
        allocation->properties = *properties;
        *ret_allocation = allocation;
        return CUDA_SUCCESS;
}

static CUresult store_of_fd(int fd, struct store **ret_store, CUmemLocation *ret_location)
{
        struct emulator *emulator = emulator_get();

        if (store_knows(&emulator->directory.host, fd)) {
                *ret_store = &emulator->directory.host;
                *ret_location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST_NUMA};
                return CUDA_SUCCESS;
        }
        for (unsigned i = 0; i < emulator->n_devices; i++) {
                if (!store_knows(emulator_store(i), fd))
                        continue;
                *ret_store = emulator_store(i);
                *ret_location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (int)i};
                return CUDA_SUCCESS;
        }
        /* Not open, not of this machine, or of a device that this process may not see: the driver does not
         * distinguish these. */
        return CUDA_ERROR_UNKNOWN;
}

/* A file of the machine's that was opened by hand is no memory either. */
static CUresult adopt_result(int r)
{
        return r == -EINVAL ? CUDA_ERROR_UNKNOWN : emulator_result(r);
}

CUresult allocation_import(int fd, struct allocation **ret_allocation)
{
        struct allocation *allocation;
        CUmemLocation location;
        struct store_hold hold;
        struct store *store;
        CUresult r;

        r = store_of_fd(fd, &store, &location);
        if (r == CUDA_SUCCESS)
                r = adopt_result(store_adopt(store, fd, &hold));
        if (r == CUDA_SUCCESS)
                r = allocation_open(store, &hold, &allocation);
        if (r != CUDA_SUCCESS)
                return r;
        allocation->origin = ALLOCATION_IMPORTED;
        allocation->properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        allocation->properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        allocation->properties.location = location;
        allocation->properties.allocFlags.gpuDirectRDMACapable = !!(hold.flags &
                                                                    RANGE_RDMA_CAPABLE);
        *ret_allocation = allocation;
        return CUDA_SUCCESS;
}

CUresult allocation_open_offered(unsigned device, uint64_t base, uint64_t serial,
                                 struct allocation **ret_allocation)
{
        struct store *store = emulator_store(device);
        struct allocation *allocation;
        struct store_hold hold;
        int r = store_open(store, base, serial, &hold);
        CUresult result = r == -ENOENT ? CUDA_ERROR_INVALID_VALUE : emulator_result(r);

        if (result == CUDA_SUCCESS)
                result = allocation_open(store, &hold, &allocation);
        if (result != CUDA_SUCCESS)
                return result;
        allocation->origin = ALLOCATION_OPENED;
        allocation->properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        allocation->properties.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE,
                                                          .id = (int)device};
        *ret_allocation = allocation;
        return CUDA_SUCCESS;
}

struct allocation *allocation_ref(struct allocation *allocation)
{
        (void)__atomic_add_fetch(&allocation->refs, 1, __ATOMIC_RELAXED);
        return allocation;
}

struct allocation *allocation_unref(struct allocation *allocation)
{
        if (allocation && __atomic_sub_fetch(&allocation->refs, 1, __ATOMIC_ACQ_REL) == 0) {
                (void)munmap(allocation->bytes, allocation->hold.n_bytes);
                store_release(allocation->store, &allocation->hold);
                free(allocation);
        }
        return NULL;
}

CUresult allocation_add_handle(struct allocation *allocation, CUmemGenericAllocationHandle *ret)
{
        if (!allocation->n_handles && handle_new(HANDLE_MEMORY, allocation, &allocation->handle))
                return CUDA_ERROR_OUT_OF_MEMORY;
        allocation->n_handles++;
        *ret = allocation->handle;
        return CUDA_SUCCESS;
}

struct allocation *allocation_find(CUmemGenericAllocationHandle handle)
{
        return handle_find(HANDLE_MEMORY, (uintptr_t)handle);
}
