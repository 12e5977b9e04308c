/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/transport/socket_close.h"

#include "base/fdset.h"
#include "daemon/backing/worker/fd_closer.h"

void socket_close(struct server *server, int take_fd)
{
        if (server->closer)
                fd_closer_take(server->closer, take_fd);
        else
                closep(&take_fd);
}
