/* SPDX-License-Identifier: Apache-2.0 */
/* Whether host memory is there before it is taken: a kernel that runs out of it kills somebody, who may be anybody,
 * instead of saying no. Any thread.
 *
 * Two bounds: what the NUMA node has available, less a margin for everybody else; and what the control group of this
 * process may still take. Others take memory meanwhile: it is a look, not a reservation. */
#pragma once

#include <stdint.h>

/* 0, or GPUMEM_E_DEVICE_FULL when n_bytes of the node's memory are not to be had. */
int headroom_check(int node, uint64_t n_bytes);

/* What the control group at `path` ("/system.slice/gpumemd.service") and those above it leave, where
 * `root` is the mount of the hierarchy; UINT64_MAX where none sets a limit. */
uint64_t headroom_of_group(const char *root, const char *path);
