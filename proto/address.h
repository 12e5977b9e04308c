/* SPDX-License-Identifier: Apache-2.0 */
/* Where the daemon listens: a path, which both sides find in the same way. */
#pragma once

#include <stddef.h>
#include <sys/un.h>

/* The admin socket's path is that of the client socket with this suffix. */
#define ADDRESS_ADMIN_SUFFIX ".admin"

/* The daemon's path: `named`, or GPUMEM_SOCKET, or /run/gpumemd/gpumemd.sock for root and
 * $XDG_RUNTIME_DIR/gpumemd/gpumemd.sock for others. -ENOENT: none of them is set; -ENAMETOOLONG: the path does not
 * fit a socket address; -EINVAL: it is empty. */
int address_to_listen(const char *named, struct sockaddr_un *ret_address);

/* The path that a client connects to: `named` or GPUMEM_SOCKET, else the first of the two others that exists. */
int address_to_connect(const char *named, struct sockaddr_un *ret_address);

/* The admin socket of a client socket. -ENAMETOOLONG: there is no room for the suffix. */
int address_of_admin(const struct sockaddr_un *client, struct sockaddr_un *ret_admin);
