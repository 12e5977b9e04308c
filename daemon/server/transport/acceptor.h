/* SPDX-License-Identifier: Apache-2.0 */
/* Accepts the connections of one listening socket, in a thread of its own: the kernel's part of a connection takes more
 * time than the daemon's. The loop takes what was accepted, with the peer's uid. Peers that have gone by then never
 * reach it. While the loop has not taken ACCEPTOR_WAITING_MAX of them, others wait in connect(). */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#define ACCEPTOR_WAITING_MAX 16

struct acceptor;
struct fd_closer;

struct accepted {
        int fd;
        uid_t uid;
};

/* Borrows the socket, which must not block, and the closer (NULL: sockets are closed at once). `wake` is called by the
 * thread when there is something to take. */
int acceptor_new(int listen_fd, struct fd_closer *closer, void (*wake)(void *argument),
                 void *argument, struct acceptor **ret_acceptor);

/* Closes what was not taken. NULL is legal; returns NULL. */
struct acceptor *acceptor_free(struct acceptor *acceptor);

/* The next one, which the caller owns. False: there is none, and `wake` will be called. */
bool acceptor_take(struct acceptor *acceptor, struct accepted *ret_accepted);

/* Whether a connection was refused, since this was asked last, because the process had no fd left for it. */
bool acceptor_take_shortage(struct acceptor *acceptor);
