/* SPDX-License-Identifier: Apache-2.0 */
/* Socket activation: systemd listens on gpumemd's sockets, so that clients may connect before gpumemd runs.
 * The protocol is that of sd_listen_fds(3): LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES.
 *
 * The variables are not trusted. Variables for another process are ignored. Each passed fd must be a socket
 * that gpumemd could have opened itself. Called at the start, before a second thread runs. */
#pragma once

#include "daemon/server/core/server_options.h"

/* 0: `sockets` has the passed sockets, now close-on-exec, or none. -EINVAL: the variables are wrong;
 * `ret_fault` says which fd, what is wrong with it, and what is allowed. */
#define ACTIVATION_FAULT_MAX 320
int activation_take(struct server_sockets *sockets, char ret_fault[static ACTIVATION_FAULT_MAX]);
