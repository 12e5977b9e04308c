/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says of the fds of one payer: each user has an epoll set of its own, a source of the scheduler's. So
 * the loop sees one fd a user, however many connections that has, and the user pays for the look at them. Events are told once
 * (EPOLLET): the owner of a watch remembers that it may read, until a read finds nothing. On the loop. */
#pragma once

#include <sys/epoll.h>

#include "daemon/server/scheduler/scheduler.h"

struct news {
        struct scheduler *scheduler;
        struct scheduler_source source; /* its task is a look at the set */
        int fd;
        unsigned n_watches;
        struct news **owner; /* set to NULL when this ends */
};

struct fd_watch {
        struct news *news; /* NULL: nothing is watched */
        int fd;
        uint32_t events;
        /* Must not end any watch, only remember, and put tasks. */
        void (*report)(struct fd_watch *watch, uint32_t events);
};

/* Watches the fd for events (EPOLLIN and others; EPOLLHUP and EPOLLERR are always told). *news is the payer's set; it is
 * made if it is NULL, and ends with its last watch. */
int fd_watch_begin(struct fd_watch *watch, struct scheduler *scheduler, struct payer *payer,
                   struct news **news, int fd, uint32_t events);

/* Events that stand already are told again. */
void fd_watch_change(struct fd_watch *watch, uint32_t events);

/* Before the fd is closed. Also legal if nothing is watched. */
void fd_watch_end(struct fd_watch *watch);
