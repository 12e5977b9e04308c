/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU time of the daemon's loop, which other load of the machine does not change. Opened by root; processes that
 * are forked afterwards read it, too. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* The loop is that process's first thread. -errno: the kernel does not count it for this process. */
int loop_time_open(pid_t daemon);
void loop_time_close(void);

/* Nanoseconds of CPU time since loop_time_open. */
uint64_t loop_time_ns(void);
