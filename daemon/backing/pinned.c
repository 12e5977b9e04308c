/* Blocks of host memory to be pinned: sealed memfds, faulted in here so that clients need not.
 * Registering them with the driver is each client's deed. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/memfd.h"
#include "daemon/backing/backing.h"
#include "gpumem.h"

/* fallocate gives every page or none: a full machine is an outcome here, not a SIGBUS in a client. */
static int fault_in(int fd, uint64_t n_bytes)
{
        if (fallocate(fd, 0, 0, (off_t)n_bytes) == 0)
                return 0;
        return errno == ENOSPC || errno == ENOMEM ? GPUMEM_E_DEVICE_FULL : err_errno();
}

static int pinned_create(struct backing *backing, struct backing_block *block,
                         char ret_failure[static BACKING_FAILURE_MAX])
{
        CLEANUP(closep)
        int fd = -1;
        int r;

        (void)backing;
        r = memfd_new("gpumem-pinned", block->n_bytes, &fd);
        if (!r)
                r = fault_in(fd, block->n_bytes);
        if (r) {
                (void)snprintf(ret_failure, BACKING_FAILURE_MAX, "memfd: %s",
                               r < 0 ? strerror(-r) : "the machine has no memory left");
                return r;
        }
        block->fd = steal_fd(&fd);
        return 0;
}

static void pinned_release(struct backing *backing, struct backing_block *block)
{
        (void)backing;
        closep(&block->fd);
}

static struct backing *pinned_free(struct backing *backing)
{
        free(backing);
        return NULL;
}

int backing_pinned_new(struct backing **ret_backing)
{
        struct backing *self = calloc(1, sizeof(*self));

        if (!self)
                return -ENOMEM;
        *self = (struct backing){pinned_create, pinned_release, pinned_free};
        *ret_backing = self;
        return 0;
}
