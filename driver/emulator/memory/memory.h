/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of cuMemAlloc, and opened memory of other processes: a range of the device that is reserved, mapped and
 * accessible in one step. It belongs to its context and ends with it. */
#pragma once

#include <cuda.h>

struct allocation;
struct context;
struct reservation;

/* Makes a reservation of that kind and context, and maps all of the allocation there, which gets a further count. */
CUresult memory_map(const struct reservation *like, struct allocation *allocation,
                    CUdeviceptr *ret_address);

/* Undoes memory_map; `memory` may be a copy. */
CUresult memory_free(const struct reservation *memory);

void memory_context_ended(const struct context *context);
