/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of device memory that are shared by CUDA IPC handles: cuMemAlloc in a context of this process. The
 * context is made with the first block, on the pool's worker, and lives as long as the process. Clients get
 * a sealed memfd that contains the handle. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/memfd.h"
#include "daemon/backing/device/handle.h"
#include "driver/context.h"
#include "driver/legacy.h"

struct legacy_backing {
        struct backing backing;
        const struct cuda *cuda;
        int ordinal;
        bool has_context;
};

static int make_context(struct legacy_backing *self)
{
        int r = self->has_context ? 0 : context_make_own(self->cuda, self->ordinal);

        self->has_context = self->has_context || r == 0;
        return r;
}

static int make_memory(struct legacy_backing *self, struct backing_block *block,
                       struct legacy_handle *ret_handle)
{
        int r = make_context(self);

        if (!r)
                r = legacy_allocate(self->cuda, block->n_bytes, &block->handle);
        return r ? r : legacy_export(self->cuda, block->handle, ret_handle);
}

static int legacy_backing_create(struct backing *backing, struct backing_block *block,
                                 char ret_failure[static BACKING_FAILURE_MAX])
{
        struct legacy_backing *self = CONTAINER_OF(backing, struct legacy_backing, backing);
        struct legacy_handle handle;
        int r = make_memory(self, block, &handle);

        if (r) {
                (void)snprintf(ret_failure, BACKING_FAILURE_MAX, "%s", cuda_failure());
        } else {
                r = memfd_new_constant("gpumem-handle", handle.bytes, sizeof(handle.bytes),
                                       &block->fd);
                if (r)
                        (void)snprintf(ret_failure, BACKING_FAILURE_MAX, "cannot make a memfd: %s",
                                       strerror(-r));
        }
        if (r)
                (void)handle_release(self->cuda, block, legacy_free);
        return r;
}

static int legacy_backing_release(struct backing *backing, struct backing_block *block)
{
        struct legacy_backing *self = CONTAINER_OF(backing, struct legacy_backing, backing);

        return handle_release(self->cuda, block, legacy_free);
}

static int legacy_backing_try(struct backing *backing, struct backing_block *block)
{
        struct legacy_backing *self = CONTAINER_OF(backing, struct legacy_backing, backing);
        struct legacy_handle handle;
        int r = make_memory(self, block, &handle);
        int released = handle_release(self->cuda, block, legacy_free);

        return r ? r : released;
}

static struct backing *legacy_backing_free(struct backing *backing)
{
        free(CONTAINER_OF(backing, struct legacy_backing, backing));
        return NULL;
}

int backing_device_legacy_new(const struct cuda *cuda, int ordinal, struct backing **ret_backing)
{
        struct legacy_backing *self = calloc(1, sizeof(*self));

        if (!self)
                return -ENOMEM;
        self->backing = (struct backing){.create = legacy_backing_create,
                                         .release = legacy_backing_release,
                                         .try = legacy_backing_try,
                                         .free = legacy_backing_free,
                                         .call_ns = BACKING_CALL_NS};
        self->cuda = cuda;
        self->ordinal = ordinal;
        *ret_backing = &self->backing;
        return 0;
}
