/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that hang in the driver or in NVML when the daemon ends, and are abandoned. Any thread. */
#pragma once

#include <stdbool.h>

/* A thread was abandoned. */
void abandoned_workers_note(void);

/* Whether a thread was abandoned. Memory that it uses must then not be freed, and an orderly exit() could
 * block in the driver. */
bool abandoned_workers_any(void);
