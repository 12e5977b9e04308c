/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that hang in the driver or in NVML at the daemon's end, and are left behind. Any thread. */
#pragma once

#include <stdbool.h>

/* One is. */
void abandoned_workers_note(void);

/* Whether any was: what they know must stay, and the driver may be in the way of an orderly exit(). */
bool abandoned_workers_any(void);
