/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory as blocks: one process makes and exports them as fds, another imports and maps them.
 *
 * Handles belong to the driver, addresses to the device. None of this needs a context. Any thread. vmm_release
 * releases a handle, and close() an fd (on a thread that may block: the driver's close can take its global lock). */
#pragma once

#include <stdint.h>

#include "driver/cuda.h"

/* The granularity: block sizes and mappings are multiples of it. */
int vmm_granularity(const struct cuda *cuda, int ordinal, uint64_t *ret_bytes);

/* vmm_allocate makes a block of a device's memory, vmm_allocate_host one of a NUMA node's; GPUMEM_E_DEVICE_FULL:
 * there is no room. VMM_RDMA: network adapters can reach it, on a device that has that. vmm_export exports it. */
enum vmm_reach { VMM_DEVICES, VMM_RDMA };
int vmm_allocate(const struct cuda *cuda, int ordinal, uint64_t n_bytes, enum vmm_reach reach,
                 uint64_t *ret_handle);
int vmm_allocate_host(const struct cuda *cuda, int node, uint64_t n_bytes, uint64_t *ret_handle);
int vmm_export(const struct cuda *cuda, uint64_t handle, int *ret_fd);

/* Makes a block and exports it. The memory lives as long as its handle, its fd or a mapping in any process.
 * GPUMEM_E_DEVICE_FULL: the device has no room. */
int vmm_create(const struct cuda *cuda, int ordinal, uint64_t n_bytes, uint64_t *ret_handle,
               int *ret_fd);

/* Imports the block of an fd, from another process or this one. The caller keeps the fd. */
int vmm_import(const struct cuda *cuda, int fd, uint64_t *ret_handle);

/* One more handle of the block that is mapped at an address. Legal beside running work and captures. */
int vmm_retain(const struct cuda *cuda, uint64_t address, uint64_t *ret_handle);

int vmm_release(const struct cuda *cuda, uint64_t handle);

int vmm_reserve(const struct cuda *cuda, uint64_t n_bytes, uint64_t *ret_address);
int vmm_unreserve(const struct cuda *cuda, uint64_t address, uint64_t n_bytes);

/* Maps a whole block at reserved addresses, readable and writable by the device. After a failure nothing is mapped.
 * But after -ENOTRECOVERABLE it is mapped without access, because vmm_unmap has failed. The mapping keeps the memory;
 * the handle may be released. */
int vmm_map(const struct cuda *cuda, int ordinal, uint64_t address, uint64_t n_bytes,
            uint64_t handle);

/* The same for a block of a NUMA node's memory: for the CPU, and for every device that this process sees. */
int vmm_map_host(const struct cuda *cuda, int node, uint64_t address, uint64_t n_bytes,
                 uint64_t handle);

/* A set of devices of this process, one bit each, from 0 on. */
#define VMM_DEVICES_MAX 64
static inline uint64_t vmm_device(int ordinal)
{
        return UINT64_C(1) << ordinal;
}

/* Lets further devices read and write a mapped block of a device; they must be its peers (device_reaches). Waits for
 * no work, and takes no access away. */
int vmm_allow(const struct cuda *cuda, uint64_t devices, uint64_t address, uint64_t n_bytes);

/* Exports mapped memory as a dma-buf, by which other devices than GPUs reach it. Address and size are multiples of the
 * page size of the host. The caller owns the fd, and the memory lives as long as it, too. GPUMEM_E_UNSUPPORTED: the
 * driver has no such call, or cannot. */
int vmm_export_dma_buf(const struct cuda *cuda, uint64_t address, uint64_t n_bytes, int *ret_fd);

/* Unmaps a block. Does not wait: work that uses it must be over. */
int vmm_unmap(const struct cuda *cuda, uint64_t address, uint64_t n_bytes);
