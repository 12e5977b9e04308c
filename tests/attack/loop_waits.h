/* SPDX-License-Identifier: Apache-2.0 */
/* How long the daemon's loop waits for a lock of the kernel's, which its CPU time does not show: another process may hold
 * the lock, and get no CPU. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* A thread looks every half of a millisecond from now on. The loop is that process's first thread. Aborts on failure. */
void loop_waits_begin(pid_t daemon);

/* The longest wait that was seen, from the first look that found it to the last, in nanoseconds. */
uint64_t loop_waits_end(void);
