#include "driver/host.h"

#include "gpumem.h"

int host_register(const struct cuda *cuda, void *bytes, uint64_t n_bytes)
{
        return CUDA_CALL(cuda, cuMemHostRegister, bytes, n_bytes,
                         CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
}

int host_unregister(const struct cuda *cuda, void *bytes)
{
        return CUDA_CALL(cuda, cuMemHostUnregister, bytes);
}

int host_context_check(const struct cuda *cuda)
{
        CUcontext context;
        int r;

        r = CUDA_CALL(cuda, cuCtxGetCurrent, &context);
        if (r)
                return r;
        return context ? 0 : GPUMEM_E_NO_CONTEXT;
}
