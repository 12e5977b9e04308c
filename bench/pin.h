/* SPDX-License-Identifier: Apache-2.0 */
/* Processes on one CPU, so that what two of them do for each other adds up. */
#pragma once

#include <sys/types.h>

/* All threads of the process that there are now. */
int pin_to_cpu(pid_t pid, int cpu);

/* The same, to every CPU that the machine lets it have. */
int pin_to_none(pid_t pid);

/* One that this process may use. */
int pin_choose(int *ret_cpu);
