/* SPDX-License-Identifier: Apache-2.0 */
/* Notifies systemd that the daemon serves, that its loop runs, and that it ends. Does nothing if gpumemd
 * was not started by systemd with Type=notify, or was built without libsystemd. */
#pragma once

#include <stdint.h>

/* gpumemd serves. `systemctl status` shows `status`, a short text without a newline. */
void notify_ready(const char *status);

/* gpumemd ends and takes no new clients. */
void notify_stopping(void);

/* gpumemd is busy with this; systemd waits some seconds longer for it. */
void notify_status(const char *status);

/* The interval in ms at which to report that the loop runs: half of systemd's watchdog interval. 0: no
 * watchdog. */
uint64_t notify_alive_ms(void);
void notify_alive(void);
