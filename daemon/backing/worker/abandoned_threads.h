/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that hang in the driver, in NVML or in the kernel when the daemon ends, and are left behind. Any thread. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

/* Leaves the thread behind, and says why in the log. What it uses stays. */
void abandoned_threads_add(pthread_t thread, const char *why);

/* Whether a thread was left behind. Memory that it uses must then not be freed, and an orderly exit() could
 * block in the driver. */
bool abandoned_threads_any(void);
