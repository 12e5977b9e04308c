/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says of the fds of all payers, and of libuv's, in one epoll set. Events are told once (EPOLLET): the owner
 * of a watch remembers that it may read, until a read finds nothing. So a look takes the longer the more has arrived, not the
 * more is waited for; and each payer pays for what is told of its fds. One set without others in it: to add a socket to a
 * set that is in another takes a lock of the kernel's that any process can hold for long. libuv's is in it from the start.
 * On the loop. */
#pragma once

#include <stdbool.h>
#include <sys/epoll.h>
#include <uv.h>

#include "daemon/fairness/next_payer.h"

struct fd_watches {
        int fd;
        bool is_loop_ready; /* libuv's has told something, or libuv has not been run yet: it watches nothing before */
};

/* Before fd_watches_open; fd_watches_close is legal. */
#define FD_WATCHES_NULL ((struct fd_watches){.fd = -1})

struct fd_watch {
        struct fd_watches *set; /* NULL: nothing is watched */
        struct payer *payer;
        int fd;
        uint32_t events;
        /* Must not end any watch, only remember, and put tasks. */
        void (*report)(struct fd_watch *watch, uint32_t events);
};

/* Errors of the kernel's; what was opened is left to fd_watches_close. */
int fd_watches_open(struct fd_watches *set, uv_loop_t *loop);
void fd_watches_close(struct fd_watches *set);

/* Tells what has arrived. If that is nothing, it waits so long for it; -1: for ever. Returns for how long it waited. */
uint64_t fd_watches_look(struct fd_watches *set, int timeout_ms);

/* Watches the fd for events (EPOLLIN and others; EPOLLHUP and EPOLLERR are always told). With EPOLLONESHOT one event is
 * told, and then none until a change. -ENOMEM, or errors of the kernel's. */
int fd_watch_begin(struct fd_watch *watch, struct fd_watches *set, struct payer *payer, int fd,
                   uint32_t events);

/* Events that stand already are told again. */
void fd_watch_change(struct fd_watch *watch, uint32_t events);

/* Before the fd is closed. Also legal if nothing is watched. */
void fd_watch_end(struct fd_watch *watch);
