#include "daemon/server/peer.h"

#include <sys/pidfd.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/fdset.h"

/* Linux 6.5; younger than the headers of some systems that run on such a kernel. */
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

/* Before Linux 6.5 the pid must do: it may have been used again since the peer connected. */
static int open_pidfd(int socket, pid_t pid)
{
        int pidfd;
        socklen_t n_bytes = sizeof(pidfd);

        if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &n_bytes) == 0)
                return pidfd;
        if (errno != ENOPROTOOPT)
                return -ESRCH;
        pidfd = pidfd_open(pid, 0);
        return pidfd < 0 ? err_errno() : pidfd;
}

int peer_init(struct peer *peer, int socket)
{
        struct ucred credentials;
        socklen_t n_bytes = sizeof(credentials);
        int pidfd;

        if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &n_bytes) < 0)
                return err_errno();
        pidfd = open_pidfd(socket, credentials.pid);
        if (pidfd < 0)
                return pidfd;
        *peer = (struct peer){.pid = credentials.pid, .uid = credentials.uid, .pidfd = pidfd};
        return 0;
}

void peer_deinit(struct peer *peer)
{
        closep(&peer->pidfd);
}
