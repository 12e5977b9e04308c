/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory as blocks: made and exported as a fd on one side, imported and mapped on the other.
 *
 * Handles are the driver's, addresses are the device's. No context is needed for any of it. Any thread. A handle is
 * released by vmm_release, a fd by close (on a thread that may block: the driver's close can take its global lock). */
#pragma once

#include <stdint.h>

#include "driver/cuda.h"

/* What block sizes and mappings are multiples of. */
int vmm_granularity(const struct cuda *cuda, int ordinal, uint64_t *ret_bytes);

/* Makes a block: of a device's memory, of a NUMA node's; GPUMEM_E_DEVICE_FULL when there is no room. And exports it. */
int vmm_allocate(const struct cuda *cuda, int ordinal, uint64_t n_bytes, uint64_t *ret_handle);
int vmm_allocate_host(const struct cuda *cuda, int node, uint64_t n_bytes, uint64_t *ret_handle);
int vmm_export(const struct cuda *cuda, uint64_t handle, int *ret_fd);

/* Makes a block and exports it. The memory lives as long as its handle, its fd or a mapping does, in any process.
 * GPUMEM_E_DEVICE_FULL when the device has no room. */
int vmm_create(const struct cuda *cuda, int ordinal, uint64_t n_bytes, uint64_t *ret_handle,
               int *ret_fd);

/* The same of the memory of a NUMA node, which CPU and devices reach alike. */
int vmm_create_host(const struct cuda *cuda, int node, uint64_t n_bytes, uint64_t *ret_handle,
                    int *ret_fd);

/* The block behind a fd, from another process or this one. The fd stays the caller's. */
int vmm_import(const struct cuda *cuda, int fd, uint64_t *ret_handle);

int vmm_release(const struct cuda *cuda, uint64_t handle);

int vmm_reserve(const struct cuda *cuda, uint64_t n_bytes, uint64_t *ret_address);
int vmm_unreserve(const struct cuda *cuda, uint64_t address, uint64_t n_bytes);

/* Maps a whole block into reserved addresses, readable and writable by the device. On failure nothing is mapped, but
 * with -ENOTRECOVERABLE: then nobody can reach it, and vmm_unmap has failed. The mapping keeps the memory; the handle
 * may be released. */
int vmm_map(const struct cuda *cuda, int ordinal, uint64_t address, uint64_t n_bytes,
            uint64_t handle);

/* The same for a block of a NUMA node's memory: for the CPU, and for every device that this process sees. */
int vmm_map_host(const struct cuda *cuda, int node, uint64_t address, uint64_t n_bytes,
                 uint64_t handle);

/* Devices of this process, one a bit from 0 on. */
#define VMM_DEVICES_MAX 64
static inline uint64_t vmm_device(int ordinal)
{
        return UINT64_C(1) << ordinal;
}

/* Lets other devices read and write a mapped block of a device too, which must be peers of it (device_reaches). Waits
 * for no work, and takes nothing from those that have access already. */
int vmm_allow(const struct cuda *cuda, uint64_t devices, uint64_t address, uint64_t n_bytes);

/* Unmaps it. Gives no protection from running work: that must be over. */
int vmm_unmap(const struct cuda *cuda, uint64_t address, uint64_t n_bytes);
