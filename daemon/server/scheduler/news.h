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

struct news {
        int fd;
        bool is_loop_ready; /* libuv's has told something, or libuv has not been run yet: it watches nothing before */
};

/* Before news_open; news_close is legal. */
#define NEWS_NULL ((struct news){.fd = -1})

struct fd_watch {
        struct news *news; /* NULL: nothing is watched */
        struct payer *payer;
        int fd;
        uint32_t events;
        /* Must not end any watch, only remember, and put tasks. */
        void (*report)(struct fd_watch *watch, uint32_t events);
};

/* Errors of the kernel's; what was opened is left to news_close. */
int news_open(struct news *news, uv_loop_t *loop);
void news_close(struct news *news);

/* Tells what has arrived. If that is nothing, it waits so long for it; -1: for ever. Returns for how long it waited. */
uint64_t news_look(struct news *news, int timeout_ms);

/* Watches the fd for events (EPOLLIN and others; EPOLLHUP and EPOLLERR are always told). With EPOLLONESHOT one event is
 * told, and then none until a change. -ENOMEM, or errors of the kernel's. */
int fd_watch_begin(struct fd_watch *watch, struct news *news, struct payer *payer, int fd,
                   uint32_t events);

/* Events that stand already are told again. */
void fd_watch_change(struct fd_watch *watch, uint32_t events);

/* Before the fd is closed. Also legal if nothing is watched. */
void fd_watch_end(struct fd_watch *watch);
