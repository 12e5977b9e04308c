/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's calls on a thread's current contexts. */
#include <cuda.h>
#include <stdbool.h>

#include "driver/emulator/context/context.h"
#include "driver/emulator/context/current.h"
#include "driver/emulator/machine/emulator.h"
#include "driver/emulator/machine/handle.h"

/* Of contexts, as the H200's driver says. */
#define API_VERSION 3020

/* One that has ended, too. */
static CUresult context_find(CUcontext handle, struct context **ret_context, uint64_t *ret_id,
                             bool *ret_active)
{
        struct context *context;

        emulator_lock();
        context = handle_find(HANDLE_CONTEXT, (uintptr_t)handle);
        if (context) {
                *ret_context = context;
                *ret_id = context->id;
                *ret_active = context->state == CONTEXT_ACTIVE;
        }
        emulator_unlock();
        return context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/* What a driver does with a context that was destroyed is undefined: the H200's takes it, and crashes soon after.
 * A primary one that has ended it takes, and each call then says so. */
static CUresult context_find_to_use(CUcontext handle, struct context **ret_context)
{
        bool is_active;
        uint64_t id;
        CUresult r = context_find(handle, ret_context, &id, &is_active);

        if (r == CUDA_SUCCESS && !is_active && (*ret_context)->kind == CONTEXT_CREATED)
                emulator_end("a context that was destroyed is made current");
        return r;
}

EMULATOR_API CUresult CUDAAPI cuCtxSetCurrent(CUcontext handle)
{
        struct context *context;
        CUresult r = emulator_enter(__func__);

        if (r != CUDA_SUCCESS)
                return r;
        if (handle) {
                r = context_find_to_use(handle, &context);
                if (r != CUDA_SUCCESS)
                        return r;
        }
        current_pop();
        return handle ? current_push(context) : CUDA_SUCCESS;
}

EMULATOR_API CUresult CUDAAPI cuCtxGetCurrent(CUcontext *ret_handle)
{
        CUresult r = emulator_enter_hot(__func__);

        if (r != CUDA_SUCCESS)
                return r;
        if (!ret_handle)
                return CUDA_ERROR_INVALID_VALUE;
        *ret_handle = context_handle(current_top);
        return CUDA_SUCCESS;
}

EMULATOR_API CUresult CUDAAPI cuCtxPushCurrent(CUcontext handle)
{
        struct context *context;
        CUresult r = emulator_enter(__func__);

        if (r != CUDA_SUCCESS)
                return r;
        r = context_find_to_use(handle, &context);
        return r == CUDA_SUCCESS ? current_push(context) : r;
}

EMULATOR_API CUresult CUDAAPI cuCtxPopCurrent(CUcontext *ret_handle)
{
        CUresult r = emulator_enter(__func__);

        if (r != CUDA_SUCCESS)
                return r;
        if (!current_top)
                return CUDA_ERROR_INVALID_CONTEXT;
        if (ret_handle)
                *ret_handle = context_handle(current_top);
        current_pop();
        return CUDA_SUCCESS;
}

EMULATOR_API CUresult CUDAAPI cuCtxGetDevice(CUdevice *ret_device)
{
        struct context *context;
        CUresult r = emulator_enter_hot(__func__);

        if (r == CUDA_SUCCESS && !ret_device)
                r = CUDA_ERROR_INVALID_VALUE;
        if (r == CUDA_SUCCESS)
                r = context_get(&context);
        if (r == CUDA_SUCCESS)
                *ret_device = (CUdevice)context->device;
        return r;
}

/* One that has ended has some, too. */
EMULATOR_API CUresult CUDAAPI cuCtxGetFlags(unsigned int *ret_flags)
{
        CUresult r = emulator_enter(__func__);

        if (r == CUDA_SUCCESS && !ret_flags)
                r = CUDA_ERROR_INVALID_VALUE;
        if (r == CUDA_SUCCESS && !current_top)
                r = CUDA_ERROR_INVALID_CONTEXT;
        if (r != CUDA_SUCCESS)
                return r;
        emulator_lock();
        *ret_flags = current_top->flags | CU_CTX_MAP_HOST;
        emulator_unlock();
        return CUDA_SUCCESS;
}

/* The id of a context, or of the current one; `ended`: the result for one that has ended. */
static CUresult context_ask(CUcontext handle, CUresult ended, uint64_t *ret_id)
{
        struct context *context;
        bool is_active;
        CUresult r;

        if (!handle && !current_top)
                return CUDA_ERROR_INVALID_CONTEXT;
        if (!handle)
                handle = context_handle(current_top);
        r = context_find(handle, &context, ret_id, &is_active);
        return r == CUDA_SUCCESS && !is_active ? ended : r;
}

EMULATOR_API CUresult CUDAAPI cuCtxGetId(CUcontext handle, unsigned long long *ret_id)
{
        uint64_t id;
        CUresult r = emulator_enter_hot(__func__);

        if (r == CUDA_SUCCESS && !ret_id)
                r = CUDA_ERROR_INVALID_VALUE;
        if (r == CUDA_SUCCESS)
                r = context_ask(handle, CUDA_ERROR_CONTEXT_IS_DESTROYED, &id);
        if (r == CUDA_SUCCESS)
                *ret_id = id;
        return r;
}

EMULATOR_API CUresult CUDAAPI cuCtxGetApiVersion(CUcontext handle, unsigned *ret_version)
{
        uint64_t id;
        CUresult r = emulator_enter(__func__);

        if (r == CUDA_SUCCESS && !ret_version)
                r = CUDA_ERROR_INVALID_VALUE;
        if (r == CUDA_SUCCESS)
                r = context_ask(handle, CUDA_ERROR_INVALID_CONTEXT, &id);
        if (r == CUDA_SUCCESS)
                *ret_version = API_VERSION;
        return r;
}
