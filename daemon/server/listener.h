/* The socket that clients connect to, and its file. One daemon a path: a lock file beside it says
 * whether a socket that is there is alive or left behind. */
#pragma once

#include "daemon/server/core.h"

struct listener;

/* `named` as in proto/address.h. Failures are logged. */
int listener_new(struct server *server, const char *named, struct listener **ret_listener);

/* Stops accepting and removes the file; the memory goes with the handle's close callback. */
struct listener *listener_close(struct listener *listener);
