/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory that is registered with the driver, so that copies need no staging. Needs a current context; the
 * registration holds in all contexts. Any thread. Unregistering waits for every running kernel. */
#pragma once

#include <stdint.h>

#include "driver/cuda.h"

/* The most memory of one registration. A copy may not span two registrations: an H200's driver refuses it. So a block
 * should be one piece, though that holds the driver's lock for long. This driver line fails at 512 GiB and more. */
#define HOST_PIECE (UINT64_C(256) << 30)

/* Registers in pieces; all of it or, after a failure, nothing. */
int host_register(const struct cuda *cuda, void *bytes, uint64_t n_bytes);

/* Unregisters what host_register has registered. Goes on after a failure, so that as little as possible stays
 * registered, and returns the first one. */
int host_unregister(const struct cuda *cuda, void *bytes, uint64_t n_bytes);

/* Is a context current in the calling thread? GPUMEM_E_NO_CONTEXT: no. */
int host_context_check(const struct cuda *cuda);

/* host_unregister in a context that need not be current (driver/context.h). */
int host_unregister_in(const struct cuda *cuda, uint64_t context, void *bytes, uint64_t n_bytes);

/* The NUMA node next to the current context's device. GPUMEM_E_NO_CONTEXT; GPUMEM_E_UNSUPPORTED: the driver does not
 * know it. */
int host_device_node(const struct cuda *cuda, int *ret_node);
