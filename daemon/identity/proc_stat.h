/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc says of a process. Pure: the text is an argument. */
#pragma once

#include <stdint.h>

/* When it started, in ticks since the boot, out of /proc/PID/stat: with its pid it names a process once
 * and for all. The process chooses its own name, which stands before, in parentheses and with
 * anything in it. -EPROTO: that is not there. */
int proc_stat_start(const char *stat, uint64_t *ret_ticks);
