/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/host.h"

#include "driver/context.h"
#include "gpumem.h"

struct range {
        char *bytes;
        uint64_t n_bytes;
};

static uint64_t piece_bytes(uint64_t n_left_bytes)
{
        return n_left_bytes < HOST_PIECE ? n_left_bytes : HOST_PIECE;
}

int host_register(const struct cuda *cuda, void *bytes, uint64_t n_bytes)
{
        uint64_t n_done = 0;

        while (n_done < n_bytes) {
                uint64_t n_piece = piece_bytes(n_bytes - n_done);
                int r = CUDA_CALL(cuda, cuMemHostRegister, (char *)bytes + n_done, n_piece,
                                  CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);

                if (r) {
                        (void)host_unregister(cuda, bytes, n_done);
                        return r;
                }
                n_done += n_piece;
        }
        return 0;
}

/* The driver may tell of an error of earlier work, and have done it: then the next try finds nothing to do. */
static int unregister_piece(const struct cuda *cuda, void *bytes)
{
        CUresult result = cuda->cuMemHostUnregister(bytes);

        if (result == CUDA_SUCCESS || result == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)
                return 0;
        return cuda_failed(cuda, "cuMemHostUnregister", result);
}

int host_unregister(const struct cuda *cuda, void *bytes, uint64_t n_bytes)
{
        int r = 0;

        for (uint64_t n_done = 0; n_done < n_bytes; n_done += piece_bytes(n_bytes - n_done)) {
                int r_piece = unregister_piece(cuda, (char *)bytes + n_done);

                if (!r)
                        r = r_piece;
        }
        return r;
}

static int unregister(const struct cuda *cuda, void *argument)
{
        const struct range *range = argument;

        return host_unregister(cuda, range->bytes, range->n_bytes);
}

int host_unregister_in(const struct cuda *cuda, uint64_t context, void *bytes, uint64_t n_bytes)
{
        struct range range = {bytes, n_bytes};

        return context_run(cuda, context, unregister, &range);
}

int host_context_check(const struct cuda *cuda)
{
        uint64_t context;

        return context_current(cuda, &context);
}

int host_device_node(const struct cuda *cuda, int *ret_node)
{
        CUdevice device;
        int node, r;

        r = host_context_check(cuda);
        if (!r)
                r = CUDA_CALL(cuda, cuCtxGetDevice, &device);
        if (!r)
                r = CUDA_CALL(cuda, cuDeviceGetAttribute, &node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID,
                              device);
        if (r)
                return r;
        if (node < 0)
                return GPUMEM_E_UNSUPPORTED;
        *ret_node = node;
        return 0;
}
