/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a process sleeps. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Every thread of it waits for something: what had come for it is done, however slow the machine is. One that is
 * ready and gets no processor does not sleep. */
bool process_sleeps(pid_t pid);
