/* SPDX-License-Identifier: Apache-2.0 */
/* From a stream's handle to the stream: the default stream, the calling thread's, or a created one.
 * But for the first, which needs none, they take the emulator's lock themselves. */
#pragma once

#include <cuda.h>
#include <stdbool.h>

#include "driver/emulator/stream/identity.h"

struct stream;

/* Whose identity is asked for only, without a lock. False: lookup_stream knows, which may have
 * to make a default stream first. */
bool lookup_default_identity(CUstream handle, struct identity *ret_identity);

static inline bool lookup_identity(CUstream handle, struct identity *ret_identity)
{
        if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
                return lookup_default_identity(handle, ret_identity);
        return identity_find((uintptr_t)handle, ret_identity);
}

/* The caller gets a count. Invented handles: CUDA_ERROR_INVALID_HANDLE; one of a stream that was destroyed
 * ends the process. A spoilt context does not hinder: a caller that cares asks for its failure. */
CUresult lookup_stream(CUstream handle, struct stream **ret_stream);

/* The same, and the context must not be spoilt. */
CUresult lookup_usable_stream(CUstream handle, struct stream **ret_stream);
