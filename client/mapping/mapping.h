/* SPDX-License-Identifier: Apache-2.0 */
/* How a pool's blocks are mapped into this process: device memory is imported; pinned memory is a memfd, or imported
 * from the driver, and registered. Any thread. ipc_mapping.h maps device memory that comes as a CUDA IPC handle; of
 * this file it uses only the functions for addresses. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "driver/cuda.h"
#include "gpumem.h"

struct memory {
        enum gpumem_kind kind;
        const struct cuda *cuda; /* NULL: no driver; pinned memory is only shared memory then */
        int ordinal;             /* device memory: the CUDA ordinal in this process */
        bool is_ipc; /* device memory that comes as CUDA IPC handles: see ipc_mapping.h */
        enum { MEMORY_MEMFD, MEMORY_VMM } pinned; /* what pinned memory is made of */
        int node;                                 /* pinned memory: NUMA node */
};

/* The alignment of reserved addresses and of all that is mapped there. */
#define MAPPING_ALIGNMENT (UINT64_C(2) << 20)

/* Reserves addresses for n_bytes, without memory. With is_ipc it reserves nothing, and returns the window in which
 * the driver will probably choose addresses. GPUMEM_E_UNSUPPORTED: the driver makes this pinned memory, and the
 * process has no driver. */
int mapping_reserve(const struct memory *memory, uint64_t n_bytes, uint64_t *ret_address);
void mapping_unreserve(const struct memory *memory, uint64_t address, uint64_t n_bytes);

/* What must be undone to unmap a block. */
enum mapping { MAPPING_PLAIN, MAPPING_REGISTERED, MAPPING_IPC };

/* What may be left of a block after the driver has failed. */
struct mapping_left {
        bool is_mapped;  /* it must be unmapped, though mapping it has failed */
        uint64_t handle; /* it must be released; 0: none */
};

/* Maps the block of a fd at reserved addresses. The fd is consumed. `peers`: further devices that may reach device
 * memory (driver/vmm.h). Pinned memory is registered if the calling thread has a current context. After a failure
 * nothing is mapped, except for what `left` tells; the caller passes it zeroed. Something may be left after a
 * success, too. */
int mapping_map(const struct memory *memory, uint64_t peers, uint64_t address, uint64_t n_bytes,
                int take_fd, enum mapping *ret_mapping, struct mapping_left *left);

/* Maps a block of device memory at other reserved addresses instead, with all that is in it; not with is_ipc. Work
 * that uses it must be over. A failure before *ret_is_gone is set leaves it mapped where it was; after that it is mapped
 * nowhere, except for what `left` tells, which is about the new addresses then. */
int mapping_move(const struct memory *memory, uint64_t peers, uint64_t from, uint64_t to,
                 uint64_t n_bytes, bool *ret_is_gone, struct mapping_left *left);

/* Tries again to release a handle of struct mapping_left. */
int mapping_release_handle(const struct memory *memory, uint64_t handle);

/* Unmaps a block; the addresses stay reserved. Work that uses it must be over. */
int mapping_unmap(const struct memory *memory, uint64_t address, uint64_t n_bytes,
                  enum mapping mapping);
