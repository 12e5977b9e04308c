#include "driver/emulator/current.h"

#include <stddef.h>

#include "driver/emulator/context.h"
#include "driver/emulator/emulator.h"
#include "driver/emulator/handle.h"

#define CURRENT_MAX 64

static _Thread_local struct {
        struct {
                struct context *context;
                uint64_t id;
        } stack[CURRENT_MAX];
        unsigned depth;
} current;

struct context *current_get(uint64_t *ret_id)
{
        if (!current.depth)
                return NULL;
        *ret_id = current.stack[current.depth - 1].id;
        return current.stack[current.depth - 1].context;
}

CUresult current_push(struct context *context, uint64_t id)
{
        if (current.depth == CURRENT_MAX)
                return CUDA_ERROR_OUT_OF_MEMORY;
        current.stack[current.depth].context = context;
        current.stack[current.depth].id = id;
        current.depth++;
        return CUDA_SUCCESS;
}

void current_forget(const struct context *context)
{
        if (current.depth && current.stack[current.depth - 1].context == context)
                current.depth--;
}

static CUresult context_find(CUcontext handle, struct context **ret_context, uint64_t *ret_id)
{
        struct context *context;
        CUresult r = CUDA_ERROR_INVALID_CONTEXT;

        emulator_lock();
        context = handle_find(HANDLE_CONTEXT, (uintptr_t)handle);
        if (context && context->state == CONTEXT_ACTIVE) {
                *ret_context = context;
                *ret_id = context->id;
                r = CUDA_SUCCESS;
        }
        emulator_unlock();
        return r;
}

EMULATOR_API CUresult CUDAAPI cuCtxSetCurrent(CUcontext handle)
{
        struct context *context;
        uint64_t id;
        CUresult r = emulator_enter();

        if (r != CUDA_SUCCESS)
                return r;
        if (handle) {
                r = context_find(handle, &context, &id);
                if (r != CUDA_SUCCESS)
                        return r;
        }
        if (current.depth)
                current.depth--;
        return handle ? current_push(context, id) : CUDA_SUCCESS;
}

EMULATOR_API CUresult CUDAAPI cuCtxGetCurrent(CUcontext *ret_handle)
{
        uint64_t id;
        CUresult r = emulator_enter();

        if (r != CUDA_SUCCESS)
                return r;
        if (!ret_handle)
                return CUDA_ERROR_INVALID_VALUE;
        *ret_handle = context_handle(current_get(&id));
        return CUDA_SUCCESS;
}

EMULATOR_API CUresult CUDAAPI cuCtxPushCurrent(CUcontext handle)
{
        struct context *context;
        uint64_t id;
        CUresult r = emulator_enter();

        if (r == CUDA_SUCCESS)
                r = context_find(handle, &context, &id);
        return r == CUDA_SUCCESS ? current_push(context, id) : r;
}

EMULATOR_API CUresult CUDAAPI cuCtxPopCurrent(CUcontext *ret_handle)
{
        CUresult r = emulator_enter();

        if (r != CUDA_SUCCESS)
                return r;
        if (!current.depth)
                return CUDA_ERROR_INVALID_CONTEXT;
        current.depth--;
        if (ret_handle)
                *ret_handle = context_handle(current.stack[current.depth].context);
        return CUDA_SUCCESS;
}

EMULATOR_API CUresult CUDAAPI cuCtxGetDevice(CUdevice *ret_device)
{
        struct context *context;
        CUresult r = emulator_enter();

        if (r == CUDA_SUCCESS && !ret_device)
                r = CUDA_ERROR_INVALID_VALUE;
        if (r == CUDA_SUCCESS)
                r = context_get(&context);
        if (r == CUDA_SUCCESS)
                *ret_device = (CUdevice)context->device;
        return r;
}

EMULATOR_API CUresult CUDAAPI cuCtxGetId(CUcontext handle, unsigned long long *ret_id)
{
        struct context *context;
        uint64_t id;
        CUresult r = emulator_enter();

        if (r == CUDA_SUCCESS && !ret_id)
                r = CUDA_ERROR_INVALID_VALUE;
        if (r != CUDA_SUCCESS)
                return r;
        if (handle)
                r = context_find(handle, &context, &id);
        else if (!current_get(&id))
                r = CUDA_ERROR_INVALID_CONTEXT;
        if (r == CUDA_SUCCESS)
                *ret_id = id;
        return r;
}

EMULATOR_API CUresult CUDAAPI cuCtxSynchronize(void)
{
        struct context *context;
        CUresult r = emulator_enter();

        if (r == CUDA_SUCCESS)
                r = context_get(&context);
        return r == CUDA_SUCCESS ? context_wait(context) : r;
}
