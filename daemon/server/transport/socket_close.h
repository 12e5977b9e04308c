/* SPDX-License-Identifier: Apache-2.0 */
/* Closes a socket whose peer may have sent file descriptors. Closing those may take long
 * (daemon/backing/worker/fd_closer.h). On the loop. */
#pragma once

#include "daemon/server/core/server_state.h"

/* A client's socket, or a listening one. */
void socket_close(struct server *server, int take_fd);
