/* SPDX-License-Identifier: Apache-2.0 */
#include "client/connection/connect.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "client/runtime/last_error.h"
#include "gpumem.h"
#include "proto/address.h"

static const char *advice(int error)
{
        switch (error) {
        case ENOENT:
        case ECONNREFUSED:
                return "is gpumemd running, and is this its socket?";
        case EACCES:
        case EPERM:
                return "the socket's owner and group may connect";
        case EAGAIN:
                return "gpumemd accepts no connections: is it stopped, or hung?";
        case EPROTOTYPE:
                return "another program's socket";
        case ENOTSOCK:
                return "not a socket";
        default:
                return "no gpumemd can be reached there";
        }
}

/* connect() says ECONNREFUSED of a folder and of a plain file, too. */
static bool is_no_socket(const struct sockaddr_un *address)
{
        struct stat status;

        return stat(address->sun_path, &status) == 0 && !S_ISSOCK(status.st_mode);
}

static const char *kernel_text(const struct sockaddr_un *address, int error)
{
        struct stat status;

        if (error == ENOTSOCK)
                return stat(address->sun_path, &status) == 0 && S_ISDIR(status.st_mode) ? "a folder"
                                                                                        : "a file";
        return error == EAGAIN ? "no answer" : strerrordesc_np(error);
}

static int explain(const struct sockaddr_un *address, int error)
{
        int r = error == EACCES || error == EPERM ? GPUMEM_E_DENIED : GPUMEM_E_DISCONNECTED;
        char text[GPUMEM_TEXT_BYTES];

        if (error == ECONNREFUSED && is_no_socket(address))
                error = ENOTSOCK;
        (void)snprintf(text, sizeof(text), "%s: %s: %s", address->sun_path,
                       kernel_text(address, error), advice(error));
        log_debug("%s", text);
        last_error_set_errno(r, error, text);
        return r;
}

/* Explains an invalid path. */
static int explain_path(const char *socket_path, int r)
{
        char text[GPUMEM_TEXT_BYTES];

        (void)snprintf(text, sizeof(text), "the socket's path %s%.200s%s is %s",
                       socket_path ? "\"" : "in GPUMEM_SOCKET or XDG_RUNTIME_DIR",
                       socket_path ? socket_path : "", socket_path ? "\"" : "",
                       r == -EINVAL ? "empty" : "longer than 107 bytes");
        last_error_set(r, text);
        return r;
}

/* If the daemon's backlog is full, connect() waits. A signal interrupts that wait even if its handler restarts calls,
 * so this loops. */
static int connect_timeout(int fd, const struct sockaddr_un *address, uint32_t answer_ms)
{
        uint64_t at_ms = clock_now_ms(), until_ms = at_ms + answer_ms;

        for (; at_ms < until_ms; at_ms = clock_now_ms()) {
                uint32_t left_ms = (uint32_t)(until_ms - at_ms);
                struct timeval timeout = {left_ms / 1000, (suseconds_t)(left_ms % 1000) * 1000};

                if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) < 0)
                        return err_errno();
                if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0)
                        return 0;
                if (errno != EINTR)
                        return err_errno();
        }
        return -EAGAIN;
}

int connect_open(const char *socket_path, uint32_t answer_ms, struct fork_socket *socket)
{
        struct sockaddr_un address;
        int r;

        r = address_to_connect(socket_path, &address);
        if (r)
                return explain_path(socket_path, r);
        r = fork_socket_open(socket);
        if (r)
                return r;
        r = connect_timeout(socket->fd, &address, answer_ms);
        return r ? explain(&address, -r) : 0;
}

const char *connect_name(int socket, char name[static CONNECT_NAME_MAX])
{
        struct sockaddr_un address = {.sun_path = ""};
        socklen_t n_bytes = sizeof(address), n_peer_bytes = sizeof(struct ucred);
        struct ucred peer = {.pid = 0};
        char process[32] = "";

        if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &n_peer_bytes) == 0 && peer.pid > 0)
                (void)snprintf(process, sizeof(process), " (process %d)", (int)peer.pid);
        (void)getpeername(socket, (struct sockaddr *)&address, &n_bytes);
        (void)snprintf(name, CONNECT_NAME_MAX, "gpumemd%s at %.108s", process, address.sun_path);
        return name;
}
