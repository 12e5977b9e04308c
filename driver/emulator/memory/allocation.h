/* SPDX-License-Identifier: Apache-2.0 */
/* Physical memory as this process holds it: a hold on a range of a store, and the shadow mapping through which the
 * emulator alone reaches its bytes.
 *
 * Counted: its handles hold one count together, every mapping holds one. The last count releases the range, so it
 * must not be dropped with the emulator's lock held. Handles and their number are under that lock. */
#pragma once

#include <cuda.h>
#include <stdint.h>

#include "driver/emulator/machine/store.h"

enum allocation_origin { ALLOCATION_CREATED, ALLOCATION_IMPORTED, ALLOCATION_OPENED };

struct allocation {
        unsigned refs;
        unsigned n_handles; /* how often cuMemRelease may be called */
        uintptr_t handle;   /* 0 when it has none */
        enum allocation_origin origin;
        CUmemAllocationProp properties;
        struct store *store;
        struct store_hold hold;
        unsigned char *bytes;
};

/* Makes an allocation without a handle; the caller gets its one count. */
CUresult allocation_new(struct store *store, const CUmemAllocationProp *properties,
                        uint64_t n_bytes, struct allocation **ret_allocation);

/* Imports the memory of an fd, which stays the caller's. */
CUresult allocation_import(int fd, struct allocation **ret_allocation);

/* Opens memory of the device with that number that another process has offered (store.h). CUDA_ERROR_INVALID_VALUE:
 * nothing is offered there. */
CUresult allocation_open_offered(unsigned device, uint64_t base, uint64_t serial,
                                 struct allocation **ret_allocation);

struct allocation *allocation_ref(struct allocation *allocation);
struct allocation *allocation_unref(struct allocation *allocation);

/* Gives the allocation a handle, or counts one more use of the one it has. The first use consumes a count of the
 * caller's. With the lock held. */
CUresult allocation_add_handle(struct allocation *allocation, CUmemGenericAllocationHandle *ret);

struct allocation *allocation_find(CUmemGenericAllocationHandle handle);
