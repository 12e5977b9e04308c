/* SPDX-License-Identifier: Apache-2.0 */
/* The sockets' files: their folder, the lock beside them, and their permissions.
 *
 * A user who may write to the folder could replace the socket with one of his own, so only root and the
 * daemon's own user may. Failures are logged, with what to do about them. Before the loop runs. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>
#include <sys/un.h>

/* -EPERM: other users may change what the path refers to. */
int socket_file_check_folder(const struct sockaddr_un *address);

/* Locks a file beside the socket while the daemon lives: the lock tells a living daemon's socket from one
 * that was left behind. -EADDRINUSE: another daemon is alive. */
int socket_file_lock(const struct sockaddr_un *address, int *ret_fd);

/* The group of the process itself. */
#define SOCKET_FILE_OWN_GROUP ((gid_t)-1)

/* A listening socket, created with this mode. The socket of a daemon that was killed is replaced. Any other
 * file is left alone: -EEXIST. */
int socket_file_open(const struct sockaddr_un *address, mode_t mode, gid_t group, int *ret_fd);

/* Whether this kernel can forbid clients to send file descriptors to a socket. */
bool socket_file_refuses_fds(void);

/* Whether an accepted socket may bring fds: its peer connected before they were forbidden. */
bool socket_file_brings_fds(int fd);

/* Applies to a socket that another process made the settings that gpumemd's own sockets have from the
 * start. */
int socket_file_adopt(int fd);
