/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the bytes of a device address that the emulator can touch: the contiguous piece at the start of a range.
 * Holds the mapping while it is used. Takes the emulator's lock itself. */
#pragma once

#include <cuda.h>
#include <stdint.h>

struct mapping;

enum span_use { SPAN_READ, SPAN_WRITE };

struct span {
        unsigned char *bytes;
        uint64_t n_bytes;
        struct mapping *mapping; /* NULL: host memory, which its owner keeps */
};

/* CUDA_ERROR_ILLEGAL_ADDRESS: the device may not use the address so. CUDA_ERROR_UNKNOWN: the emulator's file system
 * has no page left for it. */
CUresult span_acquire(uint64_t address, uint64_t n_bytes, unsigned device, enum span_use use,
                      struct span *ret_span);

void span_release(struct span *span);

/* CUDA_ERROR_INVALID_VALUE: the device may not use all of the range so at present. Calls check that before they
 * enqueue anything. */
CUresult span_check(uint64_t address, uint64_t n_bytes, unsigned device, enum span_use use);
