/* Blocks of host memory that the driver makes on one NUMA node, pinned from the start and exported
 * as fds: unmapped without waiting for kernels, but for clients that use CUDA only. No CUDA
 * context. */
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "daemon/backing/handle.h"
#include "daemon/backing/headroom.h"
#include "driver/vmm.h"

/* Three times what pinning takes where pages are scattered. */
#define PIN_NS_PER_GIB (UINT64_C(1000) * 1000 * 1000)

struct pinned_vmm_backing {
        struct backing backing;
        const struct cuda *cuda;
        int node;
};

static int pinned_vmm_create(struct backing *backing, struct backing_block *block,
                             char ret_failure[static BACKING_FAILURE_MAX])
{
        struct pinned_vmm_backing *self = CONTAINER_OF(backing, struct pinned_vmm_backing, backing);
        int r;

        r = headroom_check(self->node, block->n_bytes);
        if (r) {
                (void)snprintf(ret_failure, BACKING_FAILURE_MAX, "the node has no memory left");
                return r;
        }
        r = vmm_allocate_host(self->cuda, self->node, block->n_bytes, &block->handle);
        if (!r)
                r = vmm_export(self->cuda, block->handle, &block->fd);
        if (r) {
                handle_say_failure(ret_failure);
                (void)handle_release(self->cuda, block, vmm_release);
        }
        return r;
}

static int pinned_vmm_release(struct backing *backing, struct backing_block *block)
{
        struct pinned_vmm_backing *self = CONTAINER_OF(backing, struct pinned_vmm_backing, backing);

        return handle_release(self->cuda, block, vmm_release);
}

static int pinned_vmm_try(struct backing *backing, struct backing_block *block)
{
        struct pinned_vmm_backing *self = CONTAINER_OF(backing, struct pinned_vmm_backing, backing);
        int r;

        r = vmm_allocate_host(self->cuda, self->node, block->n_bytes, &block->handle);
        return r ? r : handle_release(self->cuda, block, vmm_release);
}

static struct backing *pinned_vmm_free(struct backing *backing)
{
        free(CONTAINER_OF(backing, struct pinned_vmm_backing, backing));
        return NULL;
}

int backing_pinned_vmm_new(const struct cuda *cuda, int node, struct backing **ret_backing)
{
        struct pinned_vmm_backing *self = calloc(1, sizeof(*self));

        if (!self)
                return -ENOMEM;
        self->backing = (struct backing){
                .create = pinned_vmm_create,
                .release = pinned_vmm_release,
                .try = pinned_vmm_try,
                .free = pinned_vmm_free,
                .call_ns = BACKING_CALL_NS,
                .call_ns_per_gib = PIN_NS_PER_GIB,
        };
        self->cuda = cuda;
        self->node = node;
        *ret_backing = &self->backing;
        return 0;
}
