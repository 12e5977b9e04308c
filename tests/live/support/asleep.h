/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a process sleeps. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Whether every thread of the process waits: it has then handled everything that came, on a machine of any
 * speed. A thread that is ready but has no processor does not sleep. */
bool process_sleeps(pid_t pid);
