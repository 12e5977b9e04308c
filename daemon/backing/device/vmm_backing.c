/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that the driver allocates, each exported as an fd: memory of a device or of a NUMA node. Node
 * memory is pinned from the start and unmapped without waiting for kernels, but only clients that use CUDA
 * can map it. Needs no CUDA context. */
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "daemon/backing/device/handle.h"
#include "daemon/backing/pinned/headroom.h"
#include "driver/vmm.h"

/* Three times as long as pinning takes where pages are scattered. */
#define PIN_NS_PER_GIB (UINT64_C(1000) * 1000 * 1000)

struct location {
        enum { ON_DEVICE, ON_NODE } kind;
        int number; /* the device's ordinal, or the node */
};

struct vmm_backing {
        struct backing backing;
        const struct cuda *cuda;
        struct location at;
};

static int allocate(const struct vmm_backing *self, struct backing_block *block)
{
        return self->at.kind == ON_NODE
                       ? vmm_allocate_host(self->cuda, self->at.number, block->n_bytes,
                                           &block->handle)
                       : vmm_allocate(self->cuda, self->at.number, block->n_bytes,
                                      block->is_rdma ? VMM_RDMA : VMM_DEVICES, &block->handle);
}

static int create(struct backing *backing, struct backing_block *block,
                  char ret_failure[static BACKING_FAILURE_MAX])
{
        struct vmm_backing *self = CONTAINER_OF(backing, struct vmm_backing, backing);
        int r = self->at.kind == ON_NODE ? headroom_check(self->at.number, block->n_bytes) : 0;

        if (r) {
                (void)snprintf(ret_failure, BACKING_FAILURE_MAX, "the node has no memory left");
                return r;
        }
        r = allocate(self, block);
        if (!r)
                r = vmm_export(self->cuda, block->handle, &block->fd);
        if (r) {
                handle_say_failure(ret_failure);
                (void)handle_release(self->cuda, block, vmm_release);
        }
        return r;
}

static int release(struct backing *backing, struct backing_block *block)
{
        struct vmm_backing *self = CONTAINER_OF(backing, struct vmm_backing, backing);

        return handle_release(self->cuda, block, vmm_release);
}

static int try(struct backing *backing, struct backing_block *block)
{
        struct vmm_backing *self = CONTAINER_OF(backing, struct vmm_backing, backing);
        int r = allocate(self, block);

        return r ? r : handle_release(self->cuda, block, vmm_release);
}

static struct backing *vmm_backing_free(struct backing *backing)
{
        free(CONTAINER_OF(backing, struct vmm_backing, backing));
        return NULL;
}

static int vmm_backing_new(const struct cuda *cuda, struct location at,
                           struct backing **ret_backing)
{
        struct vmm_backing *self = calloc(1, sizeof(*self));

        if (!self)
                return -ENOMEM;
        self->backing = (struct backing){
                .create = create,
                .release = release,
                .try = try,
                .free = vmm_backing_free,
                .call_ns = BACKING_CALL_NS,
                .call_ns_per_gib = at.kind == ON_NODE ? PIN_NS_PER_GIB : 0,
        };
        self->cuda = cuda;
        self->at = at;
        *ret_backing = &self->backing;
        return 0;
}

int backing_device_new(const struct cuda *cuda, int ordinal, struct backing **ret_backing)
{
        return vmm_backing_new(cuda, (struct location){ON_DEVICE, ordinal}, ret_backing);
}

int backing_pinned_vmm_new(const struct cuda *cuda, int node, struct backing **ret_backing)
{
        return vmm_backing_new(cuda, (struct location){ON_NODE, node}, ret_backing);
}
