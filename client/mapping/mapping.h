/* SPDX-License-Identifier: Apache-2.0 */
/* What a pool's blocks are on this side: device memory that is imported, or a memfd that is mapped
 * and registered with the driver. Any thread. Device memory that comes as a CUDA IPC handle is mapped by
 * ipc_mapping.h: of the functions below only those about addresses are for it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "driver/cuda.h"
#include "gpumem.h"

struct memory {
        enum gpumem_kind kind;
        const struct cuda *cuda; /* NULL: no driver; pinned memory is then only shared memory */
        int ordinal;             /* device memory: in this process */
        enum { MEMORY_IMPORTED, MEMORY_IPC } device; /* how device memory is shared */
        enum { MEMORY_MEMFD, MEMORY_VMM } pinned;    /* what pinned memory is made of */
        int node;                                    /* pinned memory: NUMA node */
};

static inline bool mapping_is_ipc(const struct memory *memory)
{
        return memory->kind == GPUMEM_DEVICE && memory->device == MEMORY_IPC;
}

/* Of reserved addresses and of everything that is mapped there. */
#define MAPPING_ALIGNMENT (UINT64_C(2) << 20)

/* Addresses for n_bytes, with nothing behind them; of MEMORY_IPC those among which the driver will
 * choose, which stay free for all. GPUMEM_E_UNSUPPORTED: pinned memory that the
 * driver makes, in a process without one. */
int mapping_reserve(const struct memory *memory, uint64_t n_bytes, uint64_t *ret_address);
void mapping_unreserve(const struct memory *memory, uint64_t address, uint64_t n_bytes);

/* What unmapping must undo. */
enum mapping { MAPPING_PLAIN, MAPPING_REGISTERED, MAPPING_IPC };

/* What a driver that fails may leave behind of a block. */
struct mapping_left {
        bool is_mapped;  /* to be unmapped, though mapping it has failed */
        uint64_t handle; /* to be let go of; 0: none */
};

/* Puts the block behind a fd at reserved addresses. The fd is consumed. Device memory can be reached from
 * these other devices too (driver/vmm.h). Pinned memory is registered
 * when a context is current in the calling thread. On failure nothing is mapped, but for what is `left`,
 * which is to be all zero before; something may be left after a success too. */
int mapping_map(const struct memory *memory, uint64_t peers, uint64_t address, uint64_t n_bytes,
                int take_fd, enum mapping *ret_mapping, struct mapping_left *left);

/* Tries again to release a handle that was left. */
int mapping_release_handle(const struct memory *memory, uint64_t handle);

/* Takes it away again; the addresses stay reserved. Work that uses it must be over. */
int mapping_unmap(const struct memory *memory, uint64_t address, uint64_t n_bytes,
                  enum mapping mapping);
