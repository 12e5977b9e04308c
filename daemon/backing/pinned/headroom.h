/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that host memory is free before it is taken. A kernel that runs out of memory does not refuse: it
 * kills a process, perhaps an innocent one. Any thread.
 *
 * Two limits: the NUMA node's available memory, less a margin for other processes, and what the daemon's
 * cgroup may still take. Other processes take memory meanwhile: this is a check, not a reservation. */
#pragma once

#include <stdint.h>

/* 0, or GPUMEM_E_DEVICE_FULL if the node lacks n_bytes of available memory. */
int headroom_check(int node, uint64_t n_bytes);

/* The memory that the cgroup at `path` ("/system.slice/gpumemd.service") and those above it may still take.
 * `root` is the mount point of the hierarchy. UINT64_MAX: no limit. */
uint64_t headroom_of_group(const char *root, const char *path);
