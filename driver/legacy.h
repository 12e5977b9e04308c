/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory of cuMemAlloc, handed to other processes as a handle of 64 bytes: whoever learns them can open it. Any
 * thread; the memory's maker, and each who opens it, needs a context on its device.
 *
 * The memory lives as long as its maker keeps it, or a process has it open; it can be opened only while its maker keeps
 * it, and not by the maker. Freeing and closing wait for every running kernel of the context, and other threads'
 * launches wait with them. */
#pragma once

#include <stdint.h>

#include "driver/cuda.h"

#define LEGACY_HANDLE_BYTES 64

struct legacy_handle {
        uint8_t bytes[LEGACY_HANDLE_BYTES];
};

/* Makes a block, in the current context. GPUMEM_E_DEVICE_FULL when the device has no room. And its handle. */
int legacy_allocate(const struct cuda *cuda, uint64_t n_bytes, uint64_t *ret_address);
int legacy_export(const struct cuda *cuda, uint64_t address, struct legacy_handle *ret_handle);
int legacy_free(const struct cuda *cuda, uint64_t address);

/* Opens a block of n_bytes in the current context. Where that has been done before it is at the same address, and
 * counted. GPUMEM_E_NO_CONTEXT: none is current, or the block is this process's own; -EPROTO: the block is smaller. */
int legacy_open(const struct cuda *cuda, const struct legacy_handle *handle, uint64_t n_bytes,
                uint64_t *ret_address);

/* Undoes that so many times, counting down to 0, in the context that it was done in (driver/context.h), which need not
 * be current. GPUMEM_E_NO_CONTEXT: it has been destroyed, and has taken the mapping along. */
int legacy_close_in(const struct cuda *cuda, uint64_t context, uint64_t address, unsigned *n_times);
