/* SPDX-License-Identifier: Apache-2.0 */
/* The listening sockets, one for clients and one for administrators, and their files. A path has one
 * daemon. On the loop. */
#pragma once

#include "daemon/server/core/server_state.h"

struct listener;

/* Opens the sockets at the path of the options, or takes over the sockets in them. Failures are logged. */
struct server_options;
int listener_new(struct server *server, const struct server_options *options,
                 struct listener **ret_listener);

/* Removes the files that it has made. The memory is freed in the next loop iteration. NULL is legal;
 * returns NULL. */
struct listener *listener_close(struct listener *listener);
