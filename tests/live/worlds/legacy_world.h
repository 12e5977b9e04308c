/* SPDX-License-Identifier: Apache-2.0 */
/* A gpumemd whose device pools have CUDA IPC handles, 256 MiB each. Failures end the test. */
#pragma once

#include "tests/live/support/daemon.h"

/* The daemon leases memory to that user only. */
void legacy_start(struct daemon *daemon, const char *emulator, unsigned uid);

/* Starts the next daemon after daemon_kill. */
void legacy_restart(struct daemon *daemon);
