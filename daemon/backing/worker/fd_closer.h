/* SPDX-License-Identifier: Apache-2.0 */
/* Closes clients' sockets. The kernel frees what is unread in one: some hundred frames take it 0.2 ms and more. Where it
 * cannot forbid clients to put file descriptors into it, their last close runs the files' cleanup, and the sender chooses
 * the files: a lingering socket waits as long as its option says, and a large file in memory takes long to free. So a
 * thread of its own closes them, and interrupts lingering. Any thread. */
#pragma once

#include <stdbool.h>

struct fd_closer;

int fd_closer_new(struct fd_closer **ret_closer);

/* NULL is legal; returns NULL. Finishes the queue first, within a limit of time. */
struct fd_closer *fd_closer_free(struct fd_closer *closer);

void fd_closer_take(struct fd_closer *closer, int take_fd);

/* False: many files wait, which are open still. What need not be closed by the thread is better closed elsewhere. */
bool fd_closer_keeps_up(struct fd_closer *closer);
