/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/identity/peer.h"

#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"
#include "daemon/identity/process_lookup.h"

/* Linux 5.14, 6.5 and 6.9; missing in the headers of some systems with such a kernel. */
#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#ifndef PID_FS_MAGIC
#define PID_FS_MAGIC 0x50494446
#endif

#define CGROUP_FOLDER "/sys/fs/cgroup"

/* The kernel gives it for each uid that this user namespace does not map: the default of kernel.overflowuid. */
#define OVERFLOW_UID 65534

/* Users without a uid here cannot be told apart: they would get each other's memory. -EOVERFLOW: it may be one of those. */
static int check_uid(uid_t uid)
{
        CLEANUP(closep)
        int fd = -1;
        char text[64] = "";
        uint32_t first, outside, n;

        if (uid != OVERFLOW_UID)
                return 0;
        fd = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return errno == ENOENT ? 0 : err_errno();
        if (read(fd, text, sizeof(text) - 1) < 0)
                return err_errno();
        if (sscanf(text, "%u %u %u", &first, &outside, &n) != 3 || n != UINT32_MAX)
                return -EOVERFLOW;
        return 0;
}

/* A container engine that runs as a user owns the cgroups of its containers as that user; all others run as root. A user
 * may have removed the cgroup meanwhile, but not the one above those that it may make. */
static uid_t owner_of(const char *container)
{
        char path[sizeof(CGROUP_FOLDER) + CGROUP_PATH_MAX];
        struct stat st;

        (void)snprintf(path, sizeof(path), CGROUP_FOLDER "%s", container);
        while (stat(path, &st)) {
                char *end = strrchr(path, '/');

                if (end <= path + strlen(CGROUP_FOLDER))
                        return 0;
                *end = '\0';
        }
        return st.st_uid;
}

/* Whether the peer still holds its socket open. A process that ended has closed it, unless a child has
 * inherited it. */
static bool stands(int socket)
{
        struct pollfd ends = {.fd = socket, .events = POLLRDHUP};

        return poll(&ends, 1, 0) == 0;
}

/* Fails if another process has reused the pid meanwhile. */
static int open_by_pid(int socket, pid_t pid)
{
        CLEANUP(closep)
        int pidfd = -1;
        uint64_t before, after;
        int r;

        if (pid <= 0)
                return -EREMOTE;
        r = process_lookup_start(pid, &before);
        if (r)
                return r;
        pidfd = pidfd_open(pid, 0);
        if (pidfd < 0)
                return err_errno();
        r = process_lookup_start(pid, &after);
        if (r)
                return r;
        return before == after && stands(socket) ? steal_fd(&pidfd) : -ESRCH;
}

static int open_pidfd(int socket, pid_t pid)
{
        int pidfd;
        socklen_t n_bytes = sizeof(pidfd);

        if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &n_bytes) == 0)
                return pidfd;
        if (errno == EMFILE || errno == ENFILE)
                return err_errno();
        if (errno != ENOPROTOOPT || !stands(socket))
                return -ESRCH;
        return open_by_pid(socket, pid);
}

/* From Linux 6.9 on each process has a pidfd inode of its own, also a process whose pid is not visible. */
static uint64_t number_of(int pidfd, pid_t pid)
{
        static atomic_bool is_numbered; /* by this kernel */
        struct statfs fs;
        struct stat st;

        if (!is_numbered)
                is_numbered = fstatfs(pidfd, &fs) == 0 && fs.f_type == PID_FS_MAGIC;
        if (is_numbered && fstat(pidfd, &st) == 0)
                return st.st_ino;
        return pid > 0 ? (uint64_t)pid : 0;
}

/* An accepted socket has the network namespace of the connecting process. Reading its cookie requires no
 * privilege. */
static uint64_t network_of(int socket)
{
        uint64_t network;
        socklen_t n_bytes = sizeof(network);
        int r = getsockopt(socket, SOL_SOCKET, SO_NETNS_COOKIE, &network, &n_bytes);

        return r ? 0 : network;
}

/* The process still runs, so its pid was not reused while /proc was read. */
static bool lives(int pidfd)
{
        struct pollfd end = {.fd = pidfd, .events = POLLIN};

        return poll(&end, 1, 0) == 0;
}

bool peer_lives(const struct peer *peer)
{
        return lives(peer->pidfd);
}

bool peer_is_for_shortage(int r)
{
        return r == -EMFILE || r == -ENFILE || r == -ENOMEM;
}

int peer_init(struct peer *peer, int socket)
{
        CLEANUP(closep)
        int pidfd = -1;
        struct ucred credentials;
        socklen_t n_bytes = sizeof(credentials);
        struct peer new_peer;
        int r;

        if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &n_bytes) < 0)
                return err_errno();
        r = check_uid(credentials.uid);
        if (r)
                return r;
        pidfd = open_pidfd(socket, credentials.pid);
        if (pidfd < 0)
                return pidfd;
        new_peer = (struct peer){.pid = credentials.pid,
                                 .uid = credentials.uid,
                                 .process = number_of(pidfd, credentials.pid)};
        new_peer.container_fault = credentials.pid > 0
                                           ? process_lookup_container(credentials.pid,
                                                                      new_peer.container)
                                           : -EREMOTE;
        /* That says nothing of the process: it is not taken for one whose container cannot be read. */
        if (peer_is_for_shortage(new_peer.container_fault))
                return new_peer.container_fault;
        /* A user that names its cgroups can make a path too long; nested containers have such, too. */
        if (new_peer.container_fault == -ENAMETOOLONG)
                new_peer.container_owner = credentials.uid;
        if (new_peer.container_fault)
                new_peer.network = network_of(socket);
        if (*new_peer.container)
                new_peer.container_owner = owner_of(new_peer.container);
        if (!lives(pidfd))
                return -ESRCH;
        new_peer.pidfd = steal_fd(&pidfd);
        *peer = new_peer;
        return 0;
}

void peer_deinit(struct peer *peer)
{
        closep(&peer->pidfd);
}

const char *peer_fault(int r)
{
        switch (r) {
        case -EREMOTE:
                return "a process of another pid namespace can be served from Linux 6.5 on only";
        case -ENOSYS:
                return "this kernel has no pidfd_open; Linux 5.3 or a later one is needed";
        case -ESRCH:
                return "the process that connected has ended";
        case -EMFILE:
        case -ENFILE:
                return "gpumemd has no file descriptor left";
        case -ENOMEM:
                return "out of memory in gpumemd";
        case -EOVERFLOW:
                return "this user has no uid in gpumemd's user namespace, and would be one with "
                       "others that have none; run gpumemd in the machine's own";
        default:
                return "cannot identify the connecting process: gpumemd needs the /proc of its own "
                       "pid namespace, with all processes in it";
        }
}
