#include "bench/peers/stage.h"

#include <dlfcn.h>
#include <stdio.h>

#include "base/err.h"

/* Names pass through <cuda.h>'s macros first. */
#define TEXT_OF(name) #name
#define NAME_OF(call) TEXT_OF(call)

static char load_reason[CUDA_REASON_MAX];

static int find_calls(struct stage *stage)
{
        void *library = dlopen(cuda_library_name(NULL), RTLD_NOW);

        if (!library)
                return -ENOENT;
#define FIND(member, call) \
        stage->calls.member = (__typeof__(stage->calls.member))dlsym(library, NAME_OF(call))
        FIND(alloc, cuMemAlloc);
        FIND(free, cuMemFree);
        FIND(host_alloc, cuMemHostAlloc);
        FIND(host_free, cuMemFreeHost);
        FIND(alloc_async, cuMemAllocAsync);
        FIND(free_async, cuMemFreeAsync);
        FIND(pool_of, cuDeviceGetDefaultMemPool);
        FIND(pool_set, cuMemPoolSetAttribute);
        FIND(pool_trim, cuMemPoolTrimTo);
#undef FIND
        return stage->calls.alloc && stage->calls.free && stage->calls.host_alloc &&
                               stage->calls.host_free
                       ? 0
                       : -ENOENT;
}

static int open_device(struct stage *stage)
{
        int r = CUDA_CALL(&stage->cuda, cuDeviceGet, &stage->device, 0);

        if (!r)
                r = CUDA_CALL(&stage->cuda, cuDevicePrimaryCtxRetain, &stage->context,
                              stage->device);
        if (!r)
                r = stage_enter(stage);
        for (unsigned i = 0; i < STAGE_STREAMS && !r; i++)
                r = CUDA_CALL(&stage->cuda, cuStreamCreate, &stage->streams[i],
                              CU_STREAM_NON_BLOCKING);
        return r;
}

int stage_init(struct stage *ret_stage)
{
        int r;

        *ret_stage = (struct stage){.device = 0};
        r = cuda_load(NULL, &ret_stage->cuda, load_reason);
        if (!r)
                r = find_calls(ret_stage);
        return r ? r : open_device(ret_stage);
}

int stage_enter(const struct stage *stage)
{
        return CUDA_CALL(&stage->cuda, cuCtxSetCurrent, stage->context);
}

int stage_check(const struct stage *stage, const char *call, CUresult result)
{
        return cuda_result(&stage->cuda, call, result);
}

const char *stage_failure(void)
{
        return load_reason[0] ? load_reason : cuda_failure();
}

int stage_prepare_copy(struct stage *stage)
{
        if (stage->target)
                return 0;
        return stage_check(stage, "cuMemAlloc",
                           stage->calls.alloc(&stage->target, STAGE_COPY_BYTES));
}

int stage_copy(struct stage *stage, const void *from)
{
        int r = CUDA_CALL(&stage->cuda, cuMemcpyHtoDAsync, stage->target, from, STAGE_COPY_BYTES,
                          stage->streams[0]);

        return r ? r : CUDA_CALL(&stage->cuda, cuStreamSynchronize, stage->streams[0]);
}
