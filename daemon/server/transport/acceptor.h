/* SPDX-License-Identifier: Apache-2.0 */
/* Accepts the connections of one listening socket and identifies their peers, in a thread of its own: the kernel's part
 * of that takes more time than the daemon's, and locks that other processes hold. Peers that have gone by then never
 * reach the loop. While it has not taken ACCEPTOR_WAITING_MAX of them, others wait in connect(). */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "daemon/identity/peer.h"

#define ACCEPTOR_WAITING_MAX 16

struct acceptor;
struct fd_closer;
struct lanes;

struct accepted {
        int fd;
        int peer_fd; /* the same, or as in struct transport */
        uid_t uid;
        int fault;        /* why its peer is not known, as of peer_init; or 0 */
        struct peer peer; /* if it is known */
};

/* Borrows the socket, which must not block, the closer (NULL: sockets are closed at once), and lanes: while these are full, it
 * accepts nothing (NULL: none are). `wake` is called by the thread when there is something to take. */
int acceptor_new(int listen_fd, struct fd_closer *closer, const struct lanes *lanes,
                 void (*wake)(void *argument), void *argument, struct acceptor **ret_acceptor);

/* Closes what was not taken. NULL is legal; returns NULL. */
struct acceptor *acceptor_free(struct acceptor *acceptor);

/* The next one, which the caller owns. False: there is none, and `wake` will be called. */
bool acceptor_take(struct acceptor *acceptor, struct accepted *ret_accepted);

/* Closes one that was taken. */
void accepted_close(struct accepted *accepted, struct fd_closer *closer);

/* Whether a connection was refused, since this was asked last, because the process had no fd left for it. */
bool acceptor_take_shortage(struct acceptor *acceptor);
