/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/transport/slow_socket.h"

#include "base/fdset.h"
#include "daemon/backing/worker/fd_closer.h"
#include "daemon/server/transport/lanes.h"

void slow_socket_note(struct server *server, uint64_t owner, uint64_t since_ns)
{
        uint64_t now_ns = clock_now_ns(), step = server->scheduler.stats.n_steps;
        uint64_t n_ns = lanes_add_up(server->lanes, owner, step, now_ns - since_ns);

        if (!n_ns)
                return;
        n_ns = scheduler_own_time(&server->scheduler, now_ns, n_ns);
        if (slow_users_suspect(n_ns))
                lanes_note(server->lanes, owner, n_ns, now_ns);
}

static bool is_slow(struct server *server, uint64_t owner)
{
        return server->lanes->users.n && lanes_are_for(server->lanes, owner, server_now_ns(server));
}

int slow_socket_to_lane(struct server *server, uint64_t owner, int peer_fd, int *fd)
{
        return is_slow(server, owner) ? lanes_take(server->lanes, owner, peer_fd, fd) : 0;
}

void slow_socket_close(struct server *server, uint64_t owner, int take_fd)
{
        uint64_t since_ns;

        if (take_fd < 0)
                return;
        if (is_slow(server, owner)) {
                if (lanes_close(server->lanes, owner, take_fd))
                        fd_closer_take_file(server->closer, take_fd);
                return;
        }
        since_ns = clock_now_ns();
        closep(&take_fd);
        slow_socket_note(server, owner, since_ns);
}

void slow_socket_close_peers(struct server *server, uint64_t owner, int take_fd)
{
        struct fd_closer *closer = server_fd_closer(server);

        if (closer)
                fd_closer_take_socket(closer, take_fd);
        else
                slow_socket_close(server, owner, take_fd);
}
