/* Blocks of device memory: one driver allocation each, exported as a fd. No CUDA context. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/log.h"
#include "daemon/backing/backing.h"
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

        r = vmm_create(self->cuda, self->ordinal, block->n_bytes, &block->handle, &block->fd);
        if (r)
                (void)snprintf(ret_failure, BACKING_FAILURE_MAX, "%s", cuda_failure());
        return r;
}

static void device_release(struct backing *backing, struct backing_block *block)
{
        struct device_backing *self = CONTAINER_OF(backing, struct device_backing, backing);

        closep(&block->fd);
        if (vmm_release(self->cuda, block->handle))
                log_error("device %d: %s", self->ordinal, cuda_failure());
        block->handle = 0;
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
        self->backing = (struct backing){
                .create = device_create, .release = device_release, .free = device_free};
        self->cuda = cuda;
        self->ordinal = ordinal;
        *ret_backing = &self->backing;
        return 0;
}
