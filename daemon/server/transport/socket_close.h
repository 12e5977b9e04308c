/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a socket whose peer may have sent file descriptors: closing those may take long
 * (daemon/backing/worker/fd_closer.h). On the loop. */
#pragma once

#include "daemon/server/core/server_state.h"

/* A client's socket, or one that clients connect to. */
void socket_close(struct server *server, int take_fd);
