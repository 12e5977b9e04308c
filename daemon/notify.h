/* SPDX-License-Identifier: Apache-2.0 */
/* What systemd is told of the service: that it serves, that its loop goes on, that it ends. Nothing is told
 * where gpumemd was not started by systemd with Type=notify, or was built without libsystemd. */
#pragma once

#include <stdint.h>

/* It serves. `status` is what `systemctl status` shows, a short text without a newline. */
void notify_ready(const char *status);

/* It serves nobody new. */
void notify_stopping(void);

/* It is about this, and is waited for for some seconds more. */
void notify_status(const char *status);

/* How often systemd is to be told that the loop goes on, in ms: twice as often as it wants to hear it. 0: it
 * does not wait for that. */
uint64_t notify_alive_ms(void);
void notify_alive(void);
