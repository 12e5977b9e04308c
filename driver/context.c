/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/context.h"

#include "gpumem.h"

int context_current(const struct cuda *cuda, uint64_t *ret_context)
{
        CUcontext context;
        int r;

        r = CUDA_CALL(cuda, cuCtxGetCurrent, &context);
        if (r)
                return r;
        if (!context)
                return GPUMEM_E_NO_CONTEXT;
        *ret_context = (uint64_t)(uintptr_t)context;
        return 0;
}

int context_device(const struct cuda *cuda, int *ret_ordinal)
{
        uint64_t context;
        CUdevice device;
        int r = context_current(cuda, &context);

        if (!r)
                r = CUDA_CALL(cuda, cuCtxGetDevice, &device);
        if (!r)
                *ret_ordinal = device;
        return r;
}

int context_retain_primary(const struct cuda *cuda, int ordinal, uint64_t *ret_context)
{
        CUcontext context;
        CUdevice device;
        int r;

        r = CUDA_CALL(cuda, cuDeviceGet, &device, ordinal);
        if (!r)
                r = CUDA_CALL(cuda, cuDevicePrimaryCtxRetain, &context, device);
        if (!r)
                *ret_context = (uint64_t)(uintptr_t)context;
        return r;
}

int context_release_primary(const struct cuda *cuda, int ordinal)
{
        CUdevice device;
        int r;

        r = CUDA_CALL(cuda, cuDeviceGet, &device, ordinal);
        return r ? r : CUDA_CALL(cuda, cuDevicePrimaryCtxRelease, device);
}

int context_make_own(const struct cuda *cuda, int ordinal)
{
        uint64_t context;
        int r = context_retain_primary(cuda, ordinal, &context);

        return r ? r : CUDA_CALL(cuda, cuCtxSetCurrent, (CUcontext)(uintptr_t)context);
}

/* Other failures tell nothing about the context. */
bool context_has_ended(const struct cuda *cuda, uint64_t context, uint64_t *ret_id)
{
        CUcontext handle = (CUcontext)(uintptr_t)context;
        unsigned long long id;
        unsigned version;
        int r;

        r = CUDA_CALL(cuda, cuCtxGetApiVersion, handle, &version);
        if (r == GPUMEM_E_NO_CONTEXT || !cuda->cuCtxGetId)
                return r == GPUMEM_E_NO_CONTEXT;
        r = CUDA_CALL(cuda, cuCtxGetId, handle, &id);
        if (!r)
                *ret_id = id;
        return r == GPUMEM_E_NO_CONTEXT;
}

int context_run(const struct cuda *cuda, uint64_t context,
                int (*call)(const struct cuda *cuda, void *argument), void *argument)
{
        CUcontext wanted = (CUcontext)(uintptr_t)context, before;
        uint64_t id;
        int r, r_back;

        r = CUDA_CALL(cuda, cuCtxGetCurrent, &before);
        if (!r && context_has_ended(cuda, context, &id))
                r = GPUMEM_E_NO_CONTEXT;
        if (r)
                return r;
        if (before == wanted)
                return call(cuda, argument);
        if (before && context_has_ended(cuda, (uint64_t)(uintptr_t)before, &id))
                before = NULL;
        r = CUDA_CALL(cuda, cuCtxSetCurrent, wanted);
        if (r)
                return r;
        r = call(cuda, argument);
        r_back = CUDA_CALL(cuda, cuCtxSetCurrent, before);
        return r ? r : r_back;
}
