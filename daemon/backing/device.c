/* Blocks of device memory: one driver allocation each, exported as a fd. No CUDA context. */
#include <stdlib.h>

#include "base/err.h"
#include "daemon/backing/handle.h"
#include "driver/vmm.h"

struct device_backing {
        struct backing backing;
        const struct cuda *cuda;
        int ordinal;
};

static int device_create(struct backing *backing, struct backing_block *block,
                         char ret_failure[static BACKING_FAILURE_MAX])
{
        struct device_backing *self = CONTAINER_OF(backing, struct device_backing, backing);
        int r;

        r = vmm_allocate(self->cuda, self->ordinal, block->n_bytes, &block->handle);
        if (!r)
                r = vmm_export(self->cuda, block->handle, &block->fd);
        if (r) {
                handle_say_failure(ret_failure);
                (void)handle_release(self->cuda, block, vmm_release);
        }
        return r;
}

static int device_release(struct backing *backing, struct backing_block *block)
{
        struct device_backing *self = CONTAINER_OF(backing, struct device_backing, backing);

        return handle_release(self->cuda, block, vmm_release);
}

static int device_try(struct backing *backing, struct backing_block *block)
{
        struct device_backing *self = CONTAINER_OF(backing, struct device_backing, backing);
        int r;

        r = vmm_allocate(self->cuda, self->ordinal, block->n_bytes, &block->handle);
        return r ? r : handle_release(self->cuda, block, vmm_release);
}

static struct backing *device_free(struct backing *backing)
{
        free(CONTAINER_OF(backing, struct device_backing, backing));
        return NULL;
}

int backing_device_new(const struct cuda *cuda, int ordinal, struct backing **ret_backing)
{
        struct device_backing *self = calloc(1, sizeof(*self));

        if (!self)
                return -ENOMEM;
        self->backing = (struct backing){.create = device_create,
                                         .release = device_release,
                                         .try = device_try,
                                         .free = device_free,
                                         .call_ns = BACKING_CALL_NS};
        self->cuda = cuda;
        self->ordinal = ordinal;
        *ret_backing = &self->backing;
        return 0;
}
