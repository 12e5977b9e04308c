/* SPDX-License-Identifier: Apache-2.0 */
/* Connects a socket to the daemon, or tells why it failed. Any thread. */
#pragma once

#include <stdint.h>

#include "client/runtime/fork_guard.h"

/* Connects. Waits at most `answer_ms` if the daemon accepts no connections. `socket_path` as in proto/address.h.
 * GPUMEM_E_DISCONNECTED, GPUMEM_E_DENIED, -ENAMETOOLONG, -EINVAL (an empty path); the calling thread's last error
 * then has the reason, with the path. */
int connect_open(const char *socket_path, uint32_t answer_ms, struct fork_socket *socket);

/* Names the other end: "gpumemd (process 12) at /run/gpumemd/gpumemd.sock". */
#define CONNECT_NAME_MAX 160
const char *connect_name(int socket, char name[static CONNECT_NAME_MAX]);
