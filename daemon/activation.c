/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/activation.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "proto/address.h"

#define FIRST_FD 3

#define SOCKETS_MAX 2

/* Digits only, as systemd writes them. */
static bool read_number(const char *text, uint64_t most, uint64_t *ret_number)
{
        uint64_t number = 0;

        if (!text || !*text)
                return false;
        for (; *text; text++) {
                if (*text < '0' || *text > '9')
                        return false;
                number = number * 10 + (uint64_t)(*text - '0');
                if (number > most)
                        return false;
        }
        *ret_number = number;
        return true;
}

/* Newer systemd versions also pass the pidfd's id, which tells a process from an earlier one with its pid. */
static bool is_meant_too(const char *text)
{
        uint64_t inode;
        struct stat status;
        int fd;

        if (!text)
                return true;
        if (!read_number(text, UINT64_MAX / 10, &inode))
                return false;
        fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
        if (fd < 0)
                return true;
        if (fstat(fd, &status) < 0)
                status.st_ino = inode;
        (void)close(fd);
        return status.st_ino == inode;
}

static bool is_meant(void)
{
        uint64_t pid;

        return read_number(secure_getenv("LISTEN_PID"), INT32_MAX, &pid) &&
               pid == (uint64_t)getpid() && is_meant_too(secure_getenv("LISTEN_PIDFDID"));
}

static bool has_option(int fd, int option, int wanted)
{
        socklen_t n = sizeof(int);
        int value;

        return getsockopt(fd, SOL_SOCKET, option, &value, &n) == 0 && value == wanted;
}

/* Returns NULL if the fd is a listening socket with an absolute path, so that clients can find it. */
static const char *find_fault(int fd)
{
        struct sockaddr_un address = {.sun_family = AF_UNSPEC};
        socklen_t n = sizeof(address);

        if (fcntl(fd, F_GETFD) < 0)
                return "not open";
        if (!has_option(fd, SO_DOMAIN, AF_UNIX))
                return "not a Unix socket";
        if (!has_option(fd, SO_TYPE, SOCK_SEQPACKET))
                return "not a SOCK_SEQPACKET socket";
        if (!has_option(fd, SO_ACCEPTCONN, 1))
                return "not listening";
        if (getsockname(fd, (struct sockaddr *)&address, &n) < 0 || n > sizeof(address) ||
            n <= offsetof(struct sockaddr_un, sun_path) + 1 || address.sun_path[0] != '/' ||
            !memchr(address.sun_path, 0, n - offsetof(struct sockaddr_un, sun_path)))
                return "no absolute path";
        return NULL;
}

/* Returns where the socket of the next name in the list (FileDescriptorName= of the units) is stored.
 * Advances the list. NULL: unknown name. */
static int *next_place(char **list, struct server_sockets *sockets)
{
        const char *name = strsep(list, ":");

        if (name && strcmp(name, "client") == 0)
                return &sockets->client;
        return name && strcmp(name, "admin") == 0 ? &sockets->admin : NULL;
}

static int refuse(char *ret_fault, int fd, const char *what)
{
        (void)snprintf(ret_fault, ACTIVATION_FAULT_MAX,
                       "LISTEN_FDS: fd %d: %s (expected listening SOCK_SEQPACKET sockets: one "
                       "named \"client\" and at most one named \"admin\", whose path is the first "
                       "one's with " ADDRESS_ADMIN_SUFFIX " appended)",
                       fd, what);
        return -EINVAL;
}

static int take_one(int fd, char **list, struct server_sockets *sockets, char *ret_fault)
{
        const char *fault = find_fault(fd);
        int *place = next_place(list, sockets);

        if (fault)
                return refuse(ret_fault, fd, fault);
        if (!place)
                return refuse(ret_fault, fd, "unknown name");
        if (*place >= 0)
                return refuse(ret_fault, fd, "a second socket of this name");
        if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 || fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
                return refuse(ret_fault, fd, strerror(errno));
        *place = fd;
        return 0;
}

/* Clients derive the admin socket's path from the client socket's path. */
static bool are_beside(const struct server_sockets *sockets)
{
        struct sockaddr_un client = {.sun_family = AF_UNSPEC}, admin = client, wanted;
        socklen_t n_client = sizeof(client), n_admin = sizeof(admin);

        return getsockname(sockets->client, (struct sockaddr *)&client, &n_client) == 0 &&
               getsockname(sockets->admin, (struct sockaddr *)&admin, &n_admin) == 0 &&
               address_of_admin(&client, &wanted) == 0 &&
               strncmp(admin.sun_path, wanted.sun_path, sizeof(wanted.sun_path)) == 0;
}

/* Takes every passed fd, also when one of them is refused: they belong to this process, and no child may
 * inherit one. */
static int take_all(unsigned n_fds, char *list, struct server_sockets *sockets, char *ret_fault)
{
        int r = 0;

        for (unsigned i = 0; i < n_fds && !r; i++)
                r = take_one(FIRST_FD + (int)i, &list, sockets, ret_fault);
        if (!r && sockets->client < 0)
                r = refuse(ret_fault, FIRST_FD, "no socket is named \"client\"");
        else if (!r && sockets->admin >= 0 && !are_beside(sockets))
                r = refuse(ret_fault, sockets->admin, "the admin socket has a path of its own");
        return r;
}

static void forget_variables(void)
{
        (void)unsetenv("LISTEN_PID");
        (void)unsetenv("LISTEN_PIDFDID");
        (void)unsetenv("LISTEN_FDS");
        (void)unsetenv("LISTEN_FDNAMES");
}

int activation_take(struct server_sockets *sockets, char ret_fault[static ACTIVATION_FAULT_MAX])
{
        CLEANUP(freep)
        char *list = NULL;
        struct server_sockets taken = SERVER_SOCKETS_NULL;
        const char *named = secure_getenv("LISTEN_FDNAMES");
        uint64_t n_fds = 0;
        int r;

        if (!is_meant()) {
                *sockets = taken;
                return 0;
        }
        if (!read_number(secure_getenv("LISTEN_FDS"), SOCKETS_MAX, &n_fds)) {
                (void)snprintf(ret_fault, ACTIVATION_FAULT_MAX,
                               "invalid LISTEN_FDS \"%.20s\" (expected a number of sockets, 0-%d)",
                               secure_getenv("LISTEN_FDS") ? secure_getenv("LISTEN_FDS") : "",
                               SOCKETS_MAX);
                return -EINVAL;
        }
        list = strdup(named ? named : "");
        if (!list)
                return refuse(ret_fault, FIRST_FD, "out of memory for its name");
        r = n_fds ? take_all((unsigned)n_fds, list, &taken, ret_fault) : 0;
        forget_variables();
        if (r == 0)
                *sockets = taken;
        return r;
}
