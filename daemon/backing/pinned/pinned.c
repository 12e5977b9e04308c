/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of host memory for pinning: sealed memfds on one NUMA node, faulted in here so that clients need
 * not. Each client registers its blocks with the driver itself. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/log.h"
#include "base/memfd.h"
#include "base/size.h"
#include "daemon/backing/pinned/headroom.h"
#include "daemon/backing/pinned/nodes.h"
#include "daemon/backing/pinned/placement.h"
#include "daemon/backing/pinned/prefault.h"
#include "daemon/backing/worker/backing.h"
#include "daemon/backing/worker/page_sweeper.h"
#include "gpumem.h"

#define STAT_BLOCK UINT64_C(512)

struct pinned_backing {
        struct backing backing;
        int node;
        char name[64];
        struct page_sweeper *sweeper;
        atomic_bool cancelled;
        uint64_t n_small; /* blocks of small pages made since huge pages ran out */
        enum { HUGE_UNKNOWN, HUGE_SERVED, HUGE_MISSED } huge;
};

enum pages { PAGES_HUGE, PAGES_SMALL };

static int open_sealed(enum pages pages, uint64_t n_bytes, int *ret_fd)
{
        return pages == PAGES_HUGE ? memfd_new_huge("gpumem-pinned", n_bytes, ret_fd)
                                   : memfd_new("gpumem-pinned", n_bytes, ret_fd);
}

static int fill(const struct pinned_backing *self, enum pages pages, int fd,
                const struct backing_block *block)
{
        uint64_t n_bytes = block->n_bytes;
        struct prefault task = {
                .fd = fd,
                .n_bytes = n_bytes,
                .way = pages == PAGES_HUGE ? PREFAULT_RESERVED : PREFAULT_ALLOCATE,
                .name = self->name,
                .cancelled = &self->cancelled,
                .abandoned = &block->abandoned,
        };
        int r = memfd_map_shared(fd, n_bytes, &task.bytes);

        if (r)
                return prefault_result(-r);
        r = placement_set(task.bytes, n_bytes, self->node,
                          pages == PAGES_HUGE ? PLACEMENT_STRICT : PLACEMENT_PREFERRED);
        if (!r)
                r = prefault(&task);
        (void)munmap(task.bytes, n_bytes);
        return r;
}

static int make(const struct pinned_backing *self, enum pages pages,
                const struct backing_block *block, int *ret_fd)
{
        CLEANUP(closep)
        int fd = -1;
        int r = open_sealed(pages, block->n_bytes, &fd);

        if (!r)
                r = fill(self, pages, fd, block);
        if (r)
                return r;
        *ret_fd = steal_fd(&fd);
        return 0;
}

/* Logs only changes at level info, since blocks come and go quickly. */
static void note_huge(struct pinned_backing *self, int r, uint64_t n_bytes)
{
        char text[SIZE_TEXT_MAX];

        if (r == 0 && self->huge != HUGE_SERVED) {
                self->huge = HUGE_SERVED;
                log_info("%s: blocks have huge pages", self->name);
        } else if (r && self->huge != HUGE_MISSED) {
                self->huge = HUGE_MISSED;
                log_info("%s: no huge pages for a block of %s; using small ones", self->name,
                         size_format(n_bytes, text));
        }
        if (r)
                log_debug("%s: %" PRIu64 " blocks of small pages so far", self->name,
                          ++self->n_small);
}

static int create(struct pinned_backing *self, const struct backing_block *block, int *ret_fd)
{
        struct node_memory memory;
        int r;

        node_read_memory(NODES_ROOT, self->node, &memory);
        if (memory.n_huge_pages) {
                r = make(self, PAGES_HUGE, block, ret_fd);
                if (r == -ECANCELED)
                        return r;
                note_huge(self, r, block->n_bytes);
                if (r == 0)
                        return 0;
        }
        r = headroom_check(self->node, block->n_bytes);
        return r ? r : make(self, PAGES_SMALL, block, ret_fd);
}

static int pinned_create(struct backing *backing, struct backing_block *block,
                         char ret_failure[static BACKING_FAILURE_MAX])
{
        struct pinned_backing *self = CONTAINER_OF(backing, struct pinned_backing, backing);
        int r = create(self, block, &block->fd);

        if (r)
                (void)snprintf(ret_failure, BACKING_FAILURE_MAX, "memfd: %s",
                               r < 0 ? strerror(-r) : "the node has no memory left");
        return r;
}

/* Frees the pages, not only the fd: a client that kept the fd or a mapping against its word would otherwise
 * use memory that counts as the daemon's. Pages that it touches later count as its own. Pages that are
 * registered stay with the driver. */
static int pinned_release(struct backing *backing, struct backing_block *block)
{
        struct pinned_backing *self = CONTAINER_OF(backing, struct pinned_backing, backing);

        if (block->fd >= 0 && !block->may_be_used)
                page_sweeper_take_file(self->sweeper, steal_fd(&block->fd), block->n_bytes);
        closep(&block->fd);
        return 0;
}

static struct backing *pinned_free(struct backing *backing)
{
        free(CONTAINER_OF(backing, struct pinned_backing, backing));
        return NULL;
}

static void pinned_cancel(struct backing *backing)
{
        struct pinned_backing *self = CONTAINER_OF(backing, struct pinned_backing, backing);

        atomic_store(&self->cancelled, true);
}

/* Seals protect a memfd's size, not its pages: a client may have punched holes. */
static enum backing_wholeness pinned_look(const struct backing_block *block)
{
        struct stat st;

        if (fstat(block->fd, &st) < 0 || (uint64_t)st.st_blocks * STAT_BLOCK < block->n_bytes)
                return BACKING_HOLED;
        return BACKING_WHOLE;
}

int backing_pinned_new(int node, const char *name, struct page_sweeper *sweeper,
                       struct backing **ret_backing)
{
        struct pinned_backing *self = calloc(1, sizeof(*self));

        if (!self)
                return -ENOMEM;
        self->backing = (struct backing){
                .create = pinned_create,
                .release = pinned_release,
                .free = pinned_free,
                .cancel = pinned_cancel,
                .look = pinned_look,
        };
        self->node = node;
        self->sweeper = sweeper;
        (void)snprintf(self->name, sizeof(self->name), "%s", name);
        atomic_init(&self->cancelled, false);
        *ret_backing = &self->backing;
        return 0;
}
