/* SPDX-License-Identifier: Apache-2.0 */
/* Connects a socket to the daemon, and says why that failed. Any thread. */
#pragma once

#include <stdint.h>

#include "client/runtime/fork_guard.h"

/* Connects, and waits no longer than `answer_ms` for a daemon that takes nobody in. `socket_path` as in
 * proto/address.h. GPUMEM_E_DISCONNECTED, GPUMEM_E_DENIED, -ENAMETOOLONG, -EINVAL (an empty path); the
 * calling thread's last error then says why, with the path. */
int connect_open(const char *socket_path, uint32_t answer_ms, struct fork_socket *socket);

/* Who is at the other end: "gpumemd (process 12) at /run/gpumemd/gpumemd.sock". */
#define CONNECT_NAME_MAX 160
const char *connect_name(int socket, char name[static CONNECT_NAME_MAX]);
