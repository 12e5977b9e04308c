/* SPDX-License-Identifier: Apache-2.0 */
/* The sockets that the daemon listens on, one for clients and one for administrators, and their files.
 * One daemon a path. On the loop. */
#pragma once

#include "daemon/server/core/server_state.h"

struct listener;

/* At the sockets of the options, or where they say. Failures are logged. */
struct server_options;
int listener_new(struct server *server, const struct server_options *options,
                 struct listener **ret_listener);

/* Takes the files away that it has made and ends with the next loop iteration. NULL is legal; returns NULL. */
struct listener *listener_close(struct listener *listener);
