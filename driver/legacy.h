/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA IPC handles: device memory of cuMemAlloc, passed to other processes as a handle of 64 bytes. Any process that
 * knows them can open it. Any thread; the maker and each process that opens the memory need a context on its device.
 *
 * The memory lives until its maker has freed it and each process has closed it. It can be opened only while its maker
 * keeps it, and not by the maker. Freeing and closing wait for every running kernel of the context, and other
 * threads' launches wait with them. */
#pragma once

#include <stdint.h>

#include "driver/cuda.h"

#define LEGACY_HANDLE_BYTES 64

struct legacy_handle {
        uint8_t bytes[LEGACY_HANDLE_BYTES];
};

/* legacy_allocate makes a block in the current context; GPUMEM_E_DEVICE_FULL: the device has no room. legacy_export
 * gives its handle. */
int legacy_allocate(const struct cuda *cuda, uint64_t n_bytes, uint64_t *ret_address);
int legacy_export(const struct cuda *cuda, uint64_t address, struct legacy_handle *ret_handle);
int legacy_free(const struct cuda *cuda, uint64_t address);

/* Opens a block of n_bytes in the current context. If it is open already, it has the same address, and the open is
 * counted. GPUMEM_E_NO_CONTEXT: none is current, or the block is this process's own; -EPROTO: the block is smaller. */
int legacy_open(const struct cuda *cuda, const struct legacy_handle *handle, uint64_t n_bytes,
                uint64_t *ret_address);

/* Closes a block n_times, counting down to 0, in the context in which it was opened (driver/context.h), which need
 * not be current. GPUMEM_E_NO_CONTEXT: that context was destroyed, and the mapping with it. */
int legacy_close_in(const struct cuda *cuda, uint64_t context, uint64_t address, unsigned *n_times);
