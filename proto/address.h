/* SPDX-License-Identifier: Apache-2.0 */
/* Where the daemon listens: a path, found in one way by both sides. */
#pragma once

#include <stddef.h>
#include <sys/un.h>

/* The admin socket's path is that of the clients' with this behind it. */
#define ADDRESS_ADMIN_SUFFIX ".admin"

/* The daemon's place: `named`, or GPUMEM_SOCKET, or for root /run/gpumemd/gpumemd.sock and for
 * others $XDG_RUNTIME_DIR/gpumemd/gpumemd.sock. -ENOENT when none of them says a place;
 * -ENAMETOOLONG when the path does not fit a socket address; -EINVAL when it is empty. */
int address_to_listen(const char *named, struct sockaddr_un *ret_address);

/* The client's: `named` or GPUMEM_SOCKET, else the first of the two that is there. */
int address_to_connect(const char *named, struct sockaddr_un *ret_address);

/* The admin socket that belongs to a socket of clients. -ENAMETOOLONG when there is no room for it. */
int address_of_admin(const struct sockaddr_un *client, struct sockaddr_un *ret_admin);
