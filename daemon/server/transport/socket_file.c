/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/transport/socket_file.h"

#include <fcntl.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/log.h"

/* The kernel lets connections in by their order, and knows of no user's turn: each that stands before another is time
 * that the other waits. One more than these may stand there. Later ones wait in connect(). */
#define BACKLOG 4

/* Linux 6.16; missing in the headers of some systems with such a kernel. */
#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

/* Says who else could remove a file in the folder and put another in its place. In a folder with the sticky
 * bit only a file's owner can. */
static const char *find_stranger(const struct stat *folder)
{
        if (folder->st_uid != 0 && folder->st_uid != geteuid())
                return "it belongs to another user";
        if (folder->st_mode & S_ISVTX)
                return NULL;
        if (folder->st_mode & S_IWOTH)
                return "every user may write to it";
        if (folder->st_mode & S_IWGRP && folder->st_gid != 0 && folder->st_gid != getegid())
                return "another group may write to it";
        return NULL;
}

/* If the folder does not exist, socket_file_lock logs that. */
int socket_file_check_folder(const struct sockaddr_un *address)
{
        char path[sizeof(address->sun_path)];
        const char *folder, *stranger;
        struct stat status;

        memcpy(path, address->sun_path, sizeof(path));
        folder = dirname(path);
        if (stat(folder, &status) < 0)
                return 0;
        stranger = find_stranger(&status);
        if (!stranger)
                return 0;
        log_error("%s: not safe for a socket: %s, and so could replace the socket; chmod or chown "
                  "it, or set another path with --socket",
                  folder, stranger);
        return -EPERM;
}

static void log_left_alone(const struct sockaddr_un *address)
{
        log_error("%s: already exists and is not a socket left by gpumemd; it is left "
                  "alone; set another path with --socket",
                  address->sun_path);
}

/* Beside such a file no lock is left. */
static bool is_other_file(const struct sockaddr_un *address)
{
        struct stat status;

        return lstat(address->sun_path, &status) == 0 && !S_ISSOCK(status.st_mode);
}

int socket_file_lock(const struct sockaddr_un *address, int *ret_fd)
{
        CLEANUP(closep)
        int fd = -1;
        char path[sizeof(address->sun_path) + 8], folder[sizeof(address->sun_path)];

        if (is_other_file(address)) {
                log_left_alone(address);
                return -EEXIST;
        }
        (void)snprintf(path, sizeof(path), "%s.lock", address->sun_path);
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0) {
                int r = err_errno();

                memcpy(folder, address->sun_path, sizeof(folder));
                if (r == -ENOENT)
                        log_error("%s: this folder for the socket does not exist; create it, or "
                                  "set another path with --socket",
                                  dirname(folder));
                else
                        log_error("%s: %s; set another path with --socket", path, strerror(-r));
                return r;
        }
        if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
                log_error("another gpumemd serves %s; stop it, or set another path with --socket",
                          address->sun_path);
                return -EADDRINUSE;
        }
        *ret_fd = steal_fd(&fd);
        return 0;
}

static bool somebody_listens(const struct sockaddr_un *address)
{
        CLEANUP(closep)
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        return fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 ||
               errno != ECONNREFUSED;
}

/* Removes the socket of a daemon that was killed. Any other file at the path is left alone. */
static int clear_path(const struct sockaddr_un *address)
{
        struct stat st;

        if (lstat(address->sun_path, &st) < 0)
                return errno == ENOENT ? 0 : err_errno();
        if (!S_ISSOCK(st.st_mode) || somebody_listens(address))
                return -EEXIST;
        return unlink(address->sun_path) < 0 ? err_errno() : 0;
}

/* Forbids fds on a socket. The kernel closes an unwanted fd in the receiver, on the loop, and closing some
 * of them (a socket that lingers) takes long. Accepted sockets inherit the setting. */
static bool refuse_fds(int fd)
{
        const int off = 0;

        return setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off)) == 0;
}

bool socket_file_refuses_fds(void)
{
        CLEANUP(closep)
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

        return fd >= 0 && refuse_fds(fd);
}

bool socket_file_brings_fds(int fd)
{
        int is_on = 1;
        socklen_t n_bytes = sizeof(is_on);

        return getsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &is_on, &n_bytes) < 0 || is_on;
}

int socket_file_adopt(int fd)
{
        (void)refuse_fds(fd);
        return listen(fd, BACKLOG) < 0 ? err_errno() : 0;
}

static int bind_file(int fd, const struct sockaddr_un *address, mode_t mode)
{
        mode_t before = umask(0777 & ~mode);
        int r = bind(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 ? err_errno() : 0;

        (void)umask(before);
        return r;
}

/* Called before a client can connect. */
static int give_to(const struct sockaddr_un *address, gid_t group)
{
        int r;

        if (group == SOCKET_FILE_OWN_GROUP)
                return 0;
        r = lchown(address->sun_path, (uid_t)-1, group) < 0 ? err_errno() : 0;
        if (r)
                log_error("%s: cannot change its group to %u: %s; gpumemd must be a member of it, "
                          "or run as root",
                          address->sun_path, (unsigned)group, strerror(-r));
        return r;
}

static int take_path(int fd, const struct sockaddr_un *address, mode_t mode)
{
        int r = clear_path(address);

        if (!r)
                r = bind_file(fd, address, mode);
        if (r == -EEXIST)
                log_left_alone(address);
        else if (r)
                log_error("%s: %s", address->sun_path, strerror(-r));
        return r;
}

int socket_file_open(const struct sockaddr_un *address, mode_t mode, gid_t group, int *ret_fd)
{
        CLEANUP(closep)
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        int r;

        if (fd < 0)
                return err_errno();
        (void)refuse_fds(fd);
        r = take_path(fd, address, mode);
        if (r)
                return r;
        r = give_to(address, group);
        if (!r && listen(fd, BACKLOG) < 0)
                r = err_errno();
        if (r) {
                (void)unlink(address->sun_path);
                return r;
        }
        *ret_fd = steal_fd(&fd);
        return 0;
}
