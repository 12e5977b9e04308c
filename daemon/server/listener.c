#include "daemon/server/listener.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/log.h"
#include "daemon/server/session.h"
#include "proto/address.h"

#define BACKLOG 128

/* Linux 6.16; younger than the headers of some systems that run on such a kernel. */
#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

struct listener {
        struct server *server;
        uv_poll_t poll;
        struct sockaddr_un address;
        int fd;
        int lock_fd;
        int spare_fd; /* given up for a moment when the process has no fd left for a connection */
};

/* Without a spare the waiting connection would wake the loop for ever. */
static void turn_away(struct listener *listener)
{
        int fd;

        closep(&listener->spare_fd);
        fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);
        closep(&fd);
        listener->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (server_may_complain(listener->server))
                log_error("a connection was turned away: the daemon has no file descriptor left; "
                          "raise "
                          "LimitNOFILE or ulimit -n");
}

static void on_connection(uv_poll_t *poll, int status, int events)
{
        struct listener *listener = CONTAINER_OF(poll, struct listener, poll);
        int fd;

        (void)status;
        (void)events;
        fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
                session_accept(listener->server, fd);
        else if (errno == EMFILE || errno == ENFILE)
                turn_away(listener);
}

static int take_lock(struct listener *listener)
{
        char path[sizeof(listener->address.sun_path) + 8];

        (void)snprintf(path, sizeof(path), "%s.lock", listener->address.sun_path);
        listener->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (listener->lock_fd < 0) {
                int r = err_errno();

                log_error("%s: %s; make its folder, or name a socket with --socket", path,
                          strerror(-r));
                return r;
        }
        if (flock(listener->lock_fd, LOCK_EX | LOCK_NB) < 0) {
                log_error("another gpumemd serves %s; stop it, or name another socket with "
                          "--socket",
                          listener->address.sun_path);
                return -EADDRINUSE;
        }
        return 0;
}

static bool somebody_listens(const struct sockaddr_un *address)
{
        CLEANUP(closep)
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        return fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 ||
               errno != ECONNREFUSED;
}

/* What is left of a daemon that was killed may go; anything else at that path is somebody's. */
static int clear_path(const struct sockaddr_un *address)
{
        struct stat st;

        if (lstat(address->sun_path, &st) < 0)
                return errno == ENOENT ? 0 : err_errno();
        if (!S_ISSOCK(st.st_mode) || somebody_listens(address))
                return -EEXIST;
        return unlink(address->sun_path) < 0 ? err_errno() : 0;
}

/* The kernel drops a fd that nobody takes where it is received, on the loop: whoever closes some of
 * them (a socket that lingers) waits for long. Accepted sockets inherit that none may be sent. */
static void refuse_fds(int fd)
{
        const int off = 0;

        if (setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off)) < 0)
                log_debug("this kernel (before 6.16) lets clients send file descriptors");
}

/* Mode 0660 from birth: who may connect is the folder's and the group's matter. */
static int bind_socket(struct listener *listener)
{
        const struct sockaddr *address = (const struct sockaddr *)&listener->address;
        mode_t before;
        int r;

        listener->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (listener->fd < 0)
                return err_errno();
        refuse_fds(listener->fd);
        r = clear_path(&listener->address);
        if (!r) {
                before = umask(0117);
                r = bind(listener->fd, address, sizeof(listener->address)) < 0 ? err_errno() : 0;
                (void)umask(before);
        }
        if (r == 0 && listen(listener->fd, BACKLOG) < 0)
                r = err_errno();
        if (r == -EEXIST)
                log_error("%s is there and is not a dead gpumemd's socket: it is left alone; name "
                          "another path with --socket",
                          listener->address.sun_path);
        else if (r)
                log_error("%s: %s", listener->address.sun_path, strerror(-r));
        return r;
}

static int open_listener(struct listener *listener)
{
        int r = take_lock(listener);

        if (!r)
                r = bind_socket(listener);
        if (!r) {
                listener->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
                r = uv_poll_init(&listener->server->loop, &listener->poll, listener->fd);
        }
        return r;
}

static void listener_free(struct listener *listener)
{
        closep(&listener->fd);
        closep(&listener->spare_fd);
        closep(&listener->lock_fd);
        free(listener);
}

static const char *address_fault(int r)
{
        if (r == -ENAMETOOLONG)
                return "the path is longer than 107 bytes";
        return r == -EINVAL ? "the path is empty" : "XDG_RUNTIME_DIR is not set";
}

int listener_new(struct server *server, const char *named, struct listener **ret_listener)
{
        struct listener *listener = calloc(1, sizeof(*listener));
        int r;

        if (!listener)
                return -ENOMEM;
        listener->server = server;
        listener->fd = listener->lock_fd = listener->spare_fd = -1;
        r = address_to_listen(named, &listener->address);
        if (r)
                log_error("no place for the socket: %s; name one with --socket", address_fault(r));
        else
                r = open_listener(listener);
        if (r) {
                listener_free(listener);
                return r;
        }
        (void)uv_poll_start(&listener->poll, UV_READABLE, on_connection);
        log_info("serving %s", listener->address.sun_path);
        *ret_listener = listener;
        return 0;
}

static void on_closed(uv_handle_t *handle)
{
        listener_free(CONTAINER_OF((uv_poll_t *)handle, struct listener, poll));
}

struct listener *listener_close(struct listener *listener)
{
        if (listener) {
                (void)unlink(listener->address.sun_path);
                uv_close((uv_handle_t *)&listener->poll, on_closed);
        }
        return NULL;
}
