/* Host memory that the driver knows, so that copies need no staging. Needs a current context;
 * all contexts see it. Any thread. Unregistering waits for every running kernel. */
#pragma once

#include <stdint.h>

#include "driver/cuda.h"

int host_register(const struct cuda *cuda, void *bytes, uint64_t n_bytes);
int host_unregister(const struct cuda *cuda, void *bytes);

/* Is a context current in the calling thread? GPUMEM_E_NO_CONTEXT if not. */
int host_context_check(const struct cuda *cuda);
