/* SPDX-License-Identifier: Apache-2.0 */
/* Closes clients' sockets. The kernel frees what is unread in one: some hundred frames take it 0.2 ms and more. Where it
 * cannot forbid clients to put file descriptors into it, their last close runs the files' cleanup, and the sender chooses
 * the files: a lingering socket waits as long as its option says, and a large file in memory takes long to free. So a
 * thread of its own closes them, and interrupts lingering. Any thread. */
#pragma once

#include <stdbool.h>

struct errand;
struct fd_closer;

int fd_closer_new(struct fd_closer **ret_closer);

/* NULL is legal; returns NULL. Finishes the queue first, within a limit of time, unless a thread was left behind. */
struct fd_closer *fd_closer_free(struct fd_closer *closer);

/* Without a closer (NULL), or memory for it, the fd is closed now. */
void fd_closer_take_socket(struct fd_closer *closer, int take_fd);

/* A file that clients have, too. Where they have locked some of its bytes, to close it waits for the kernel's list of locks. */
void fd_closer_take_file(struct fd_closer *closer, int take_fd);

/* The thread runs it between two fds; its argument is no matter. */
void fd_closer_take_errand(struct fd_closer *closer, struct errand *take_errand);

/* False: many sockets wait, which are open still. What need not be closed by the thread is better closed elsewhere. */
bool fd_closer_keeps_up(struct fd_closer *closer);
