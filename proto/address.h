/* Where the daemon listens: a path, found in one way by both sides. */
#pragma once

#include <stddef.h>
#include <sys/un.h>

/* The daemon's place: `named`, or GPUMEM_SOCKET, or for root /run/gpumemd/gpumemd.sock and for
 * others $XDG_RUNTIME_DIR/gpumemd/gpumemd.sock. -ENOENT when none of them says a place;
 * -ENAMETOOLONG when the path does not fit a socket address; -EINVAL when it is empty. */
int address_to_listen(const char *named, struct sockaddr_un *ret_address);

/* The client's: `named` or GPUMEM_SOCKET, else the first of the two that is there. */
int address_to_connect(const char *named, struct sockaddr_un *ret_address);
