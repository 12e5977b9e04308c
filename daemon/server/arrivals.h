/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that were accepted, until they are sessions.
 *
 * A thread finds out which process connected: /proc tells its container under the kernel's lock of all cgroups, which a
 * container engine may hold for long. The thread takes a few connections of one user at a time, user by user. Each
 * connection is then let in by a step that its user pays for. On the loop. */
#pragma once

#include "daemon/server/session/session.h"

struct door;

struct arrivals {
        struct server *server;
        LIST_HEAD(, door) doors;
        struct door *admin; /* of the admin socket; NULL: no connection waits there */
        bool has_wake, has_thread;
        uv_async_t wake; /* the thread has answers */
        pthread_t thread;
        pthread_mutex_t lock; /* guards the fields below */
        pthread_cond_t came;
        TAILQ_HEAD(door_queue, door) asked;
        struct door_queue answered;
        bool ending;
};

/* After a failure, too, arrivals_close must be called. */
int arrivals_open(struct arrivals *arrivals, struct server *server);

/* Waits for the thread, and closes the connections. With `has_wake` the memory may be freed in on_closed, otherwise at
 * once. Legal without arrivals_open if all bytes are 0. */
void arrivals_close(struct arrivals *arrivals, uv_close_cb on_closed);

/* Takes a connection; `user` is NULL for the admin socket. GPUMEM_E_TOO_MANY: so many of the user's wait already. -ENOMEM. */
int arrivals_add(struct arrivals *arrivals, struct user *user, enum session_way way, int take_fd);
