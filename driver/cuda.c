/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/cuda.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "gpumem.h"

#define FAILURE_MAX 160

/* The calling thread's last failed call, like errno. */
static _Thread_local char last_failure[FAILURE_MAX] = "no driver call has failed";

/* A second macro step, so that <cuda.h>'s macros are applied to a call's name first. */
#define SYMBOL_OF(call)   SYMBOL_TEXT(call)
#define SYMBOL_TEXT(call) #call

enum need { NEED_REQUIRED, NEED_OPTIONAL };

static const struct {
        const char *symbol;
        size_t offset;
        enum need need;
} calls[] = {
#define CUDA_REQUIRED(call) {SYMBOL_OF(call), offsetof(struct cuda, call), NEED_REQUIRED},
#define CUDA_OPTIONAL(call) {SYMBOL_OF(call), offsetof(struct cuda, call), NEED_OPTIONAL},
#include "driver/cuda.def"
#undef CUDA_REQUIRED
#undef CUDA_OPTIONAL
};

const char *cuda_library_name(const char *library)
{
        const char *named = library ? library : secure_getenv("GPUMEM_CUDA_LIBRARY");

        return named && *named ? named : CUDA_LIBRARY_DEFAULT;
}

static int resolve(void *handle, const char *library, struct cuda *ret_cuda, char *ret_reason)
{
        struct cuda cuda = {0};

        for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
                void *function = dlsym(handle, calls[i].symbol);

                if (!function && calls[i].need == NEED_REQUIRED) {
                        (void)snprintf(ret_reason, CUDA_REASON_MAX,
                                       "%s has no %s: a newer driver is needed", library,
                                       calls[i].symbol);
                        return GPUMEM_E_NO_DRIVER;
                }
                memcpy((char *)&cuda + calls[i].offset, &function, sizeof(function));
        }
        *ret_cuda = cuda;
        return 0;
}

int cuda_load(const char *library, struct cuda *ret_cuda, char ret_reason[static CUDA_REASON_MAX])
{
        const char *name = cuda_library_name(library);
        struct cuda cuda;
        int r;
        void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);

        if (!handle) {
                (void)snprintf(ret_reason, CUDA_REASON_MAX, "%s", dlerror());
                return GPUMEM_E_NO_DRIVER;
        }
        r = resolve(handle, name, &cuda, ret_reason);
        if (!r && CUDA_CALL(&cuda, cuInit, 0)) {
                (void)snprintf(ret_reason, CUDA_REASON_MAX, "%s: %s", name, cuda_failure());
                r = GPUMEM_E_NO_DRIVER;
        }
        /* After cuInit the library stays loaded, even if that failed: the driver may have left threads. */
        if (r)
                return r;
        *ret_cuda = cuda;
        return 0;
}

static void keep_failure(const struct cuda *cuda, const char *call, CUresult result)
{
        const char *name = NULL, *text = NULL;

        if (cuda->cuGetErrorName(result, &name) || !name)
                name = "an unknown error";
        if (cuda->cuGetErrorString(result, &text) || !text)
                text = "no text";
        (void)snprintf(last_failure, sizeof(last_failure), "%s: %s (%d, %s)", call, name,
                       (int)result, text);
        log_debug("%s", last_failure);
}

/* The results of a driver whose device is gone, or was taken from it. */
static bool is_loss(CUresult result)
{
        return result == CUDA_ERROR_NO_DEVICE || result == CUDA_ERROR_DEVICE_UNAVAILABLE ||
               result == CUDA_ERROR_ECC_UNCORRECTABLE ||
               result == CUDA_ERROR_NVLINK_UNCORRECTABLE || result == CUDA_ERROR_SYSTEM_NOT_READY;
}

int cuda_failed(const struct cuda *cuda, const char *call, CUresult result)
{
        keep_failure(cuda, call, result);
        /* Callers distinguish these results; all others are faults of the driver. */
        if (result == CUDA_ERROR_OUT_OF_MEMORY)
                return GPUMEM_E_DEVICE_FULL;
        if (result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_CONTEXT_IS_DESTROYED)
                return GPUMEM_E_NO_CONTEXT;
        if (result == CUDA_ERROR_NOT_SUPPORTED)
                return GPUMEM_E_UNSUPPORTED;
        if (result == CUDA_ERROR_NOT_READY)
                return -EBUSY;
        if (result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_INVALID_HANDLE)
                return -EINVAL;
        if (is_loss(result))
                return -ENODEV;
        return -EIO;
}

const char *cuda_failure(void)
{
        return last_failure;
}
