/* The sockets that the daemon listens on, one for clients and one for administrators, and their files.
 * One daemon a path. On the loop. */
#pragma once

#include "daemon/server/core.h"

struct listener;

/* `named` as in proto/address.h; `group`, or SOCKET_FILE_OWN_GROUP, may connect as clients. Failures are
 * logged. */
int listener_new(struct server *server, const char *named, gid_t group,
                 struct listener **ret_listener);

/* Takes the files away and ends with the loop's next turn. NULL is legal; returns NULL. */
struct listener *listener_close(struct listener *listener);
