/* SPDX-License-Identifier: Apache-2.0 */
/* Reads /proc/PID/stat. Pure: the text is an argument. */
#pragma once

#include <stdint.h>

/* The start time in ticks since the boot. Together with the pid it identifies a process. The name before
 * it, in parentheses, is chosen by the process and may contain any character. -EPROTO: the field is
 * missing. */
int proc_stat_start(const char *stat, uint64_t *ret_ticks);
