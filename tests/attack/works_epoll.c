/* SPDX-License-Identifier: Apache-2.0 */
/* Holds a lock of the kernel's, without a connection to the daemon. */
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/err.h"
#include "tests/attack/works.h"

#define N_SETS 16

static int new_set(struct gang_member *self)
{
        int fd = epoll_create1(EPOLL_CLOEXEC);

        self->n_failed += fd < 0;
        return fd;
}

static void add(struct gang_member *self, int set, int fd)
{
        struct epoll_event event = {.events = EPOLLIN};

        self->n_failed += epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) != 0;
}

/* All have the same files: a file may be in any number of sets. */
static int make_sets(struct gang_member *self)
{
        int all = new_set(self), sets[N_SETS];

        for (unsigned i = 0; i < N_SETS; i++) {
                sets[i] = new_set(self);
                add(self, all, sets[i]);
        }
        for (uint64_t n = 0; n < self->rule->amount; n++) {
                int fd = eventfd(0, EFD_CLOEXEC);

                self->n_failed += fd < 0;
                for (unsigned i = 0; i < N_SETS; i++)
                        add(self, sets[i], fd);
        }
        return all;
}

void work_epoll_sets(struct gang_member *self)
{
        int top = new_set(self), all = make_sets(self);

        self->n_done++; /* nothing is asked of the daemon, before or after */
        gang_is_ready(self);
        for (;;) {
                add(self, top, all);
                (void)epoll_ctl(top, EPOLL_CTL_DEL, all, NULL);
                gang_pass(self);
        }
}
