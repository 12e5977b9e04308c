/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the stream of a handle: the default stream, the calling thread's, or a created one. Each takes the emulator's
 * lock itself, except the first, which needs none. */
#pragma once

#include <cuda.h>
#include <stdbool.h>

#include "driver/emulator/stream/identity.h"

struct stream;

/* Finds the identity only, without a lock. False: use lookup_stream, which may have to make a default stream first. */
bool lookup_default_identity(CUstream handle, struct identity *ret_identity);

static inline bool lookup_identity(CUstream handle, struct identity *ret_identity)
{
        if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
                return lookup_default_identity(handle, ret_identity);
        return identity_find((uintptr_t)handle, ret_identity);
}

/* The caller gets a count. An invented handle: CUDA_ERROR_INVALID_HANDLE; that of a destroyed stream ends the
 * process. Does not check whether the context has failed. */
CUresult lookup_stream(CUstream handle, struct stream **ret_stream);

/* The same, and the context must not have failed. */
CUresult lookup_usable_stream(CUstream handle, struct stream **ret_stream);
