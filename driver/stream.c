#include "driver/stream.h"

#include <stdbool.h>

#include "driver/context.h"
#include "gpumem.h"

/* A default stream is the current context's; any other knows its own. */
static int stream_context(const struct cuda *cuda, CUstream stream, CUcontext *ret_context)
{
        CUcontext context;
        int r;

        if (!stream_is_created(stream))
                r = CUDA_CALL(cuda, cuCtxGetCurrent, &context);
        else
                r = CUDA_CALL(cuda, cuStreamGetCtx, stream, &context);
        if (r)
                return r;
        if (!context)
                return GPUMEM_E_NO_CONTEXT;
        *ret_context = context;
        return 0;
}

static int current_device(const struct cuda *cuda, void *argument)
{
        return CUDA_CALL(cuda, cuCtxGetDevice, argument);
}

static int synchronize_current(const struct cuda *cuda, void *argument)
{
        (void)argument;
        return CUDA_CALL(cuda, cuCtxSynchronize);
}

int stream_look_default(const struct cuda *cuda, void *stream, struct stream_mark *ret_mark)
{
        unsigned long long id;
        CUcontext context;
        int r;

        r = stream_context(cuda, stream, &context);
        if (!r)
                r = stream_check(cuda, stream);
        if (!r)
                r = CUDA_CALL(cuda, cuStreamGetId, stream, &id);
        if (r)
                return r;
        *ret_mark = (struct stream_mark){.scope = (uint64_t)(uintptr_t)context, .id = id};
        return 0;
}

int stream_identify(const struct cuda *cuda, void *stream, struct stream_key *ret_key,
                    int *ret_ordinal)
{
        unsigned long long id;
        CUcontext context;
        CUdevice device;
        int r;

        r = stream_context(cuda, stream, &context);
        if (r)
                return r;
        r = stream_check(cuda, stream);
        if (r)
                return r;
        r = CUDA_CALL(cuda, cuStreamGetId, stream, &id);
        if (r)
                return r;
        r = context_run(cuda, (uint64_t)(uintptr_t)context, current_device, &device);
        if (r)
                return r;
        *ret_key = (struct stream_key){.context = (uint64_t)(uintptr_t)context, .id = id};
        *ret_ordinal = device;
        return 0;
}

int stream_synchronize(const struct cuda *cuda, void *stream)
{
        return CUDA_CALL(cuda, cuStreamSynchronize, stream);
}

int stream_synchronize_context(const struct cuda *cuda, uint64_t context)
{
        int r = context_run(cuda, context, synchronize_current, NULL);

        return r == GPUMEM_E_NO_CONTEXT ? 0 : r;
}

int stream_synchronize_contexts(const struct cuda *cuda, uint64_t context)
{
        CUcontext current;
        int r;

        r = CUDA_CALL(cuda, cuCtxGetCurrent, &current);
        if (!r && current)
                r = synchronize_current(cuda, NULL);
        if (!r && context && context != (uint64_t)(uintptr_t)current)
                r = stream_synchronize_context(cuda, context);
        return r;
}
