/* SPDX-License-Identifier: Apache-2.0 */
/* cuMemAlloc's memory, and what other processes' was opened: a range of the device, reserved, mapped and accessible in
 * one go. It belongs to its context and goes with it. */
#pragma once

#include <cuda.h>

struct allocation;
struct context;
struct reservation;

/* A reservation of that kind and context with all of the allocation in it, of which it takes a count of its own. */
CUresult memory_map(const struct reservation *like, struct allocation *allocation,
                    CUdeviceptr *ret_address);

/* All of it again; `memory` may be a copy. */
CUresult memory_free(const struct reservation *memory);

void memory_context_ended(const struct context *context);
