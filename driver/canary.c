/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/canary.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/size.h"
#include "driver/vmm.h"

#define FILLED  0xA5
#define MOST    (64 * MIB)
#define PART    64
#define GRANULE (2 * MIB)

/* A mapped block, and a context through which it is reached. */
struct patch {
        const struct cuda *cuda;
        CUdevice device;
        CUcontext context;
        uint64_t n_bytes;
        uint64_t address;
        uint64_t handle;
        enum {
                PATCH_NONE,
                PATCH_HAS_CONTEXT,
                PATCH_IS_MADE,
                PATCH_IS_RESERVED,
                PATCH_IS_MAPPED
        } state;
};

int canary_size(const struct cuda *cuda, int ordinal, uint64_t *ret_bytes)
{
        CUdevice device;
        size_t n_bytes;
        int r;

        r = CUDA_CALL(cuda, cuDeviceGet, &device, ordinal);
        if (!r)
                r = CUDA_CALL(cuda, cuDeviceTotalMem, &n_bytes, device);
        if (r)
                return r;
        n_bytes = n_bytes / PART & ~(GRANULE - 1);
        if (n_bytes > MOST)
                n_bytes = MOST;
        *ret_bytes = n_bytes ? n_bytes : GRANULE;
        return 0;
}

static int patch_close(struct patch *patch)
{
        int r = 0;

        if (patch->state == PATCH_IS_MAPPED)
                r = vmm_unmap(patch->cuda, patch->address, patch->n_bytes);
        if (patch->state >= PATCH_IS_RESERVED && !r)
                r = vmm_unreserve(patch->cuda, patch->address, patch->n_bytes);
        if (patch->state >= PATCH_IS_MADE && !r)
                r = vmm_release(patch->cuda, patch->handle);
        if (patch->state >= PATCH_HAS_CONTEXT && !r)
                r = CUDA_CALL(patch->cuda, cuDevicePrimaryCtxRelease, patch->device);
        patch->state = PATCH_NONE;
        return r;
}

/* Makes the block as the daemon does, so that its kind of memory is checked. */
static int patch_make(struct patch *patch, int ordinal)
{
        const struct cuda *cuda = patch->cuda;
        CLEANUP(closep)
        int fd = -1;
        int r = CUDA_CALL(cuda, cuDeviceGet, &patch->device, ordinal);

        if (!r)
                r = CUDA_CALL(cuda, cuDevicePrimaryCtxRetain, &patch->context, patch->device);
        if (r)
                return r;
        patch->state = PATCH_HAS_CONTEXT;
        r = CUDA_CALL(cuda, cuCtxSetCurrent, patch->context);
        if (!r)
                r = vmm_create(cuda, ordinal, patch->n_bytes, &patch->handle, &fd);
        if (r)
                return r;
        patch->state = PATCH_IS_MADE;
        r = vmm_reserve(cuda, patch->n_bytes, &patch->address);
        if (r)
                return r;
        patch->state = PATCH_IS_RESERVED;
        r = vmm_map(cuda, ordinal, patch->address, patch->n_bytes, patch->handle);
        if (!r)
                patch->state = PATCH_IS_MAPPED;
        return r;
}

static int patch_open(struct patch *patch, const struct cuda *cuda, int ordinal, uint64_t n_bytes)
{
        int r;

        *patch = (struct patch){.cuda = cuda, .n_bytes = n_bytes};
        r = patch_make(patch, ordinal);
        if (r)
                (void)patch_close(patch);
        return r;
}

/* Has every byte this value? */
static int patch_is_all(const struct patch *patch, unsigned char byte, bool *ret_is)
{
        CLEANUP(freep)
        unsigned char *bytes = malloc(2 * GRANULE);
        unsigned char *expected;
        bool is = true;
        int r = 0;

        if (!bytes)
                return -ENOMEM;
        expected = bytes + GRANULE;
        memset(expected, byte, GRANULE);
        for (uint64_t at = 0; at < patch->n_bytes && !r && is; at += GRANULE) {
                r = CUDA_CALL(patch->cuda, cuMemcpyDtoHAsync, bytes, patch->address + at, GRANULE,
                              NULL);
                if (!r)
                        r = CUDA_CALL(patch->cuda, cuCtxSynchronize);
                is = !r && memcmp(bytes, expected, GRANULE) == 0;
        }
        if (!r)
                *ret_is = is;
        return r;
}

int canary_fill(const struct cuda *cuda, int ordinal, uint64_t n_bytes)
{
        struct patch patch;
        bool is_filled = false;
        int r, closed;

        r = patch_open(&patch, cuda, ordinal, n_bytes);
        if (r)
                return r;
        r = CUDA_CALL(cuda, cuMemsetD8Async, patch.address, FILLED, n_bytes, NULL);
        if (!r)
                r = CUDA_CALL(cuda, cuCtxSynchronize);
        if (!r)
                r = patch_is_all(&patch, FILLED, &is_filled);
        if (!r && !is_filled)
                r = -EIO;
        closed = patch_close(&patch);
        return r ? r : closed;
}

int canary_look(const struct cuda *cuda, int ordinal, uint64_t n_bytes,
                enum canary_bytes *ret_found)
{
        struct patch patch;
        bool is_zero = false;
        int r, closed;

        r = patch_open(&patch, cuda, ordinal, n_bytes);
        if (r)
                return r;
        r = patch_is_all(&patch, 0, &is_zero);
        closed = patch_close(&patch);
        if (!r)
                r = closed;
        if (!r)
                *ret_found = is_zero ? CANARY_ZERO : CANARY_OTHERS;
        return r;
}
