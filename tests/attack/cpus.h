/* SPDX-License-Identifier: Apache-2.0 */
/* CPUs that only the victims use. Where SCHED_FIFO is denied to a victim, it would wait for a CPU behind the attackers when
 * its answer is there, and the loop's work for others in that time would count as part of the answer. */
#pragma once

#include <sys/types.h>

/* The daemon's threads, the caller and what it forks leave one CPU to each victim, if this machine has enough of them. */
void cpus_leave_to_victims(pid_t daemon);

/* The caller is that victim, and runs on its CPU, if it has one. */
void cpus_take_own(unsigned victim);
