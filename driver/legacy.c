/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/legacy.h"

#include <assert.h>
#include <string.h>

#include "base/err.h"
#include "driver/context.h"

static_assert(sizeof(struct legacy_handle) == sizeof(CUipcMemHandle), "they are the same bytes");

int legacy_allocate(const struct cuda *cuda, uint64_t n_bytes, uint64_t *ret_address)
{
        CUdeviceptr address;
        int r;

        r = CUDA_CALL(cuda, cuMemAlloc, &address, n_bytes);
        if (r)
                return r;
        *ret_address = address;
        return 0;
}

int legacy_export(const struct cuda *cuda, uint64_t address, struct legacy_handle *ret_handle)
{
        CUipcMemHandle handle;
        int r;

        r = CUDA_CALL(cuda, cuIpcGetMemHandle, &handle, address);
        if (r)
                return r;
        memcpy(ret_handle->bytes, &handle, sizeof(handle));
        return 0;
}

int legacy_free(const struct cuda *cuda, uint64_t address)
{
        return CUDA_CALL(cuda, cuMemFree, address);
}

/* The daemon has told the size, which may be wrong. */
static int check_size(const struct cuda *cuda, CUdeviceptr address, uint64_t n_bytes)
{
        CUdeviceptr base;
        size_t n_there;
        int r = CUDA_CALL(cuda, cuMemGetAddressRange, &base, &n_there, address);

        if (r)
                return r;
        return base == address && n_there >= n_bytes ? 0 : -EPROTO;
}

int legacy_open(const struct cuda *cuda, const struct legacy_handle *handle, uint64_t n_bytes,
                uint64_t *ret_address)
{
        CUipcMemHandle theirs;
        CUdeviceptr address;
        int r;

        memcpy(&theirs, handle->bytes, sizeof(theirs));
        r = CUDA_CALL(cuda, cuIpcOpenMemHandle, &address, theirs,
                      CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
        if (r)
                return r;
        r = check_size(cuda, address, n_bytes);
        if (r) {
                (void)CUDA_CALL(cuda, cuIpcCloseMemHandle, address);
                return r;
        }
        *ret_address = address;
        return 0;
}

struct opened {
        uint64_t address;
        unsigned *n_times;
};

static int close_all(const struct cuda *cuda, void *argument)
{
        const struct opened *opened = argument;
        int r = 0;

        while (*opened->n_times && !r) {
                r = CUDA_CALL(cuda, cuIpcCloseMemHandle, opened->address);
                *opened->n_times -= !r;
        }
        return r;
}

int legacy_close_in(const struct cuda *cuda, uint64_t context, uint64_t address, unsigned *n_times)
{
        struct opened opened = {address, n_times};

        return context_run(cuda, context, close_all, &opened);
}
