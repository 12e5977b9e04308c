/* SPDX-License-Identifier: Apache-2.0 */
/* A socket for which the caller waits so often that the kernel is long about each call for its peer. */
#pragma once

#include <stdbool.h>

#include "tests/live/support/daemon.h"

/* From now on, until the process ends. */
void make_slow(int fd);

/* Threads of the daemon that serve such sockets. */
unsigned daemon_count_lanes(const struct daemon *daemon);
