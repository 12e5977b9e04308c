/* SPDX-License-Identifier: Apache-2.0 */
/* The sockets' files: the folder that they stand in, the lock beside them, and who may open them.
 *
 * Whoever may write to the folder may put a socket of his own in their place, so that must be nobody but root and the
 * daemon's own user. What goes wrong is logged, with what to do about it. Before the loop runs. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>
#include <sys/un.h>

/* -EPERM: others may change what the path leads to. */
int socket_file_check_folder(const struct sockaddr_un *address);

/* A file beside the socket, locked while the daemon lives: it says whether a socket that is there is alive or left
 * behind. -EADDRINUSE: it is alive. */
int socket_file_lock(const struct sockaddr_un *address, int *ret_fd);

/* The group is the process's own. */
#define SOCKET_FILE_OWN_GROUP ((gid_t)-1)

/* A socket that listens, of this mode from birth. What a daemon that was killed has left there goes; anything else is
 * left alone: -EEXIST. */
int socket_file_open(const struct sockaddr_un *address, mode_t mode, gid_t group, int *ret_fd);

/* Whether this kernel lets it be said that nobody may send file descriptors to a socket. */
bool socket_file_refuses_fds(void);

/* Whether an accepted socket may bring some: its peer had connected before that was said. */
bool socket_file_brings_fds(int fd);

/* What is said to a socket of one's own from its birth is said to one that somebody else has made. */
void socket_file_adopt(int fd);
