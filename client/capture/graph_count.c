/* SPDX-License-Identifier: Apache-2.0 */
#include "client/capture/graph_count.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

struct graph_wakeup {
        _Atomic unsigned n_refs;
        int fd;
};

struct graph_count {
        _Atomic unsigned n_refs;
        _Atomic unsigned n_graphs;
        struct graph_wakeup *wakeup;
};

/* Duplicates the fd: the graphs may outlive the client. */
struct graph_wakeup *graph_wakeup_new(int fd)
{
        struct graph_wakeup *wakeup = calloc(1, sizeof(*wakeup));

        if (!wakeup)
                return NULL;
        atomic_init(&wakeup->n_refs, 1);
        wakeup->fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
        return wakeup;
}

struct graph_wakeup *graph_wakeup_unref(struct graph_wakeup *wakeup)
{
        if (wakeup && atomic_fetch_sub(&wakeup->n_refs, 1) == 1) {
                if (wakeup->fd >= 0)
                        (void)close(wakeup->fd);
                free(wakeup);
        }
        return NULL;
}

static void graph_wakeup_ring(const struct graph_wakeup *wakeup)
{
        uint64_t one = 1;

        while (wakeup->fd >= 0 && write(wakeup->fd, &one, sizeof(one)) < 0 && errno == EINTR)
                ;
}

struct graph_count *graph_count_new(struct graph_wakeup *wakeup)
{
        struct graph_count *graphs = calloc(1, sizeof(*graphs));

        if (!graphs)
                return NULL;
        atomic_init(&graphs->n_refs, 1);
        graphs->wakeup = wakeup;
        atomic_fetch_add(&wakeup->n_refs, 1);
        return graphs;
}

struct graph_count *graph_count_ref(struct graph_count *graphs)
{
        atomic_fetch_add(&graphs->n_refs, 1);
        return graphs;
}

struct graph_count *graph_count_unref(struct graph_count *graphs)
{
        if (graphs && atomic_fetch_sub(&graphs->n_refs, 1) == 1) {
                (void)graph_wakeup_unref(graphs->wakeup);
                free(graphs);
        }
        return NULL;
}

/* The driver calls this in whichever call of the program ends the graph. */
static void graph_is_gone(void *argument)
{
        struct graph_count *graphs = argument;
        int before = errno;

        if (atomic_fetch_sub(&graphs->n_graphs, 1) == 1)
                graph_wakeup_ring(graphs->wakeup);
        (void)graph_count_unref(graphs);
        errno = before;
}

int graph_count_bind(struct graph_count *graphs, const struct cuda *cuda,
                     const struct capture *capture)
{
        atomic_fetch_add(&graphs->n_refs, 1);
        atomic_fetch_add(&graphs->n_graphs, 1);
        return capture_tie(cuda, capture, graph_is_gone, graphs);
}

bool graph_count_is_gone(const struct graph_count *graphs)
{
        return atomic_load(&graphs->n_graphs) == 0;
}
