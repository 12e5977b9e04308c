/* From a stream's handle to the stream: the default stream, the calling thread's, or a created one.
 * Takes the emulator's lock itself. */
#pragma once

#include <cuda.h>

struct stream;

/* The caller gets a count. Invented and stale handles: CUDA_ERROR_INVALID_HANDLE. A spoilt
 * context does not hinder: whoever cares asks for its failure. */
CUresult lookup_stream(CUstream handle, struct stream **ret_stream);

/* The same, and the context must not be spoilt. */
CUresult lookup_usable_stream(CUstream handle, struct stream **ret_stream);
