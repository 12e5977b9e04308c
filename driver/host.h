/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory that the driver knows, so that copies need no staging. Needs a current context; all contexts see it. Any
 * thread. Unregistering waits for every running kernel. */
#pragma once

#include <stdint.h>

#include "driver/cuda.h"

/* What the driver is asked to register at once. A copy may not span two registrations (an H200's driver refuses it), so
 * a block is one piece, though that holds the driver's lock for long; this driver line fails at 512 GiB and more. */
#define HOST_PIECE (UINT64_C(256) << 30)

/* In pieces; all of it or, on failure, nothing. */
int host_register(const struct cuda *cuda, void *bytes, uint64_t n_bytes);

/* What host_register registered. After a failure, which is the first one's, as little as possible is left
 * registered. */
int host_unregister(const struct cuda *cuda, void *bytes, uint64_t n_bytes);

/* Is a context current in the calling thread? GPUMEM_E_NO_CONTEXT if not. */
int host_context_check(const struct cuda *cuda);

/* The same in a context that need not be current (driver/context.h). */
int host_unregister_in(const struct cuda *cuda, uint64_t context, void *bytes, uint64_t n_bytes);

/* The NUMA node next to the current context's device. GPUMEM_E_NO_CONTEXT; GPUMEM_E_UNSUPPORTED when the driver does
 * not know it. */
int host_device_node(const struct cuda *cuda, int *ret_node);
