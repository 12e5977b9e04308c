/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets that systemd has opened for gpumemd, which programs may connect to while it is not there: the
 * protocol of sd_listen_fds(3), by the variables LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES.
 *
 * Nothing of it is taken on trust: variables that are meant for another process are left alone, and of
 * those that are meant for this one each fd must be a socket that gpumemd could have opened itself. At
 * the start, before there is another thread. */
#pragma once

#include "daemon/server/core/server_options.h"

/* 0: `sockets` has those that were passed, close-on-exec from now on, or none.
 * -EINVAL: something else was passed, and `ret_fault` says what and what is allowed. */
#define ACTIVATION_FAULT_MAX 320
int activation_take(struct server_sockets *sockets, char ret_fault[static ACTIVATION_FAULT_MAX]);
