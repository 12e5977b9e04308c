/* SPDX-License-Identifier: Apache-2.0 */
/* Other streams of a process with a capture_world, which write to all that they get, and do not run ahead
 * of it, until the end: for replays that must be right meanwhile. */
#pragma once

#include "base/size.h"

/* What each of them has at a time; room for two, another process and some graphs. */
#define CHURN_BYTES       (8 * MIB)
#define CHURN_THREADS_MAX 2

void churn_begin(unsigned n_threads);
void churn_end(void);
