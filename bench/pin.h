/* SPDX-License-Identifier: Apache-2.0 */
/* Puts processes on one CPU, so that their costs for each other add up. */
#pragma once

#include <sys/types.h>

/* Pins all present threads of the process. */
int pin_to_cpu(pid_t pid, int cpu);

/* Allows every CPU of the machine to all present threads of the process. */
int pin_to_none(pid_t pid);

/* Chooses a CPU that this process may use. */
int pin_choose(int *ret_cpu);
