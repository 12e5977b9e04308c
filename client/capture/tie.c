#include "client/capture/tie.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

struct bell {
        _Atomic unsigned n_refs;
        int fd;
};

struct tie {
        _Atomic unsigned n_refs;
        _Atomic unsigned n_graphs;
        struct bell *bell;
};

/* A fd of its own: the graphs may outlive the client. */
struct bell *bell_new(int fd)
{
        struct bell *bell = calloc(1, sizeof(*bell));

        if (!bell)
                return NULL;
        atomic_init(&bell->n_refs, 1);
        bell->fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
        return bell;
}

struct bell *bell_unref(struct bell *bell)
{
        if (bell && atomic_fetch_sub(&bell->n_refs, 1) == 1) {
                if (bell->fd >= 0)
                        (void)close(bell->fd);
                free(bell);
        }
        return NULL;
}

static void bell_ring(const struct bell *bell)
{
        uint64_t one = 1;

        while (bell->fd >= 0 && write(bell->fd, &one, sizeof(one)) < 0 && errno == EINTR)
                ;
}

struct tie *tie_new(struct bell *bell)
{
        struct tie *tie = calloc(1, sizeof(*tie));

        if (!tie)
                return NULL;
        atomic_init(&tie->n_refs, 1);
        tie->bell = bell;
        atomic_fetch_add(&bell->n_refs, 1);
        return tie;
}

struct tie *tie_ref(struct tie *tie)
{
        atomic_fetch_add(&tie->n_refs, 1);
        return tie;
}

struct tie *tie_unref(struct tie *tie)
{
        if (tie && atomic_fetch_sub(&tie->n_refs, 1) == 1) {
                (void)bell_unref(tie->bell);
                free(tie);
        }
        return NULL;
}

/* In whatever call of the program's lets go of the graph. */
static void graph_is_gone(void *argument)
{
        struct tie *tie = argument;
        int before = errno;

        if (atomic_fetch_sub(&tie->n_graphs, 1) == 1)
                bell_ring(tie->bell);
        (void)tie_unref(tie);
        errno = before;
}

int tie_bind(struct tie *tie, const struct cuda *cuda, const struct capture *capture)
{
        atomic_fetch_add(&tie->n_refs, 1);
        atomic_fetch_add(&tie->n_graphs, 1);
        return capture_tie(cuda, capture, graph_is_gone, tie);
}

bool tie_is_gone(const struct tie *tie)
{
        return atomic_load(&tie->n_graphs) == 0;
}
