/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA driver as a table of function pointers, filled by dlopen: the only interface between this project and a
 * GPU. libcuda.so.1 and the emulated driver fill the same table.
 *
 * Members have the driver's own names and types: cuda->cuMemCreate(...). Only driver/, bench/ and tests call them;
 * everything else uses the modules of this folder, which return -errno and GPUMEM_E_*.
 *
 * A table never changes once loaded, and may be used by any thread. It is never unloaded: the driver keeps threads of
 * its own. */
#pragma once

#include <cuda.h>

#include "base/err.h"

#define CUDA_LIBRARY_DEFAULT "libcuda.so.1"

/* The longest reason of cuda_load. */
#define CUDA_REASON_MAX 512

struct cuda {
#define CUDA_REQUIRED(call) __typeof__(call) *call;
#define CUDA_OPTIONAL(call) __typeof__(call) *call;
#include "driver/cuda.def"
#undef CUDA_REQUIRED
#undef CUDA_OPTIONAL
};

/* Loads `library`, or if that is NULL the one that GPUMEM_CUDA_LIBRARY names, or libcuda.so.1, and calls cuInit.
 * After a failure `ret_reason` tells in one sentence what is missing. GPUMEM_E_NO_DRIVER: no such library, no usable
 * device driver behind it, or a symbol is missing. */
int cuda_load(const char *library, struct cuda *ret_cuda, char ret_reason[static CUDA_REASON_MAX]);

/* The name of the library that cuda_load would try. */
const char *cuda_library_name(const char *library);

/* Translates the result of a driver call that failed: GPUMEM_E_DEVICE_FULL, GPUMEM_E_NO_CONTEXT,
 * GPUMEM_E_UNSUPPORTED, or a negative errno (-ENODEV: the device is lost). Keeps the failure, with the call's name,
 * for cuda_failure(). */
COLD int cuda_failed(const struct cuda *cuda, const char *call, CUresult result);

static inline int cuda_result(const struct cuda *cuda, const char *call, CUresult result)
{
        return __builtin_expect(result == CUDA_SUCCESS, 1) ? 0 : cuda_failed(cuda, call, result);
}

/* The calling thread's last failed driver call, as text for a log: "cuMemCreate:
 * CUDA_ERROR_OUT_OF_MEMORY (out of memory)". */
const char *cuda_failure(void);

/* Calls a function of the driver and translates its result: CUDA_CALL(cuda, cuMemRelease, handle). */
#define CUDA_CALL(cuda, call, ...) cuda_result((cuda), #call, (cuda)->call(__VA_ARGS__))
