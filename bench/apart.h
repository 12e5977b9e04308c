/* SPDX-License-Identifier: Apache-2.0 */
/* A measurement in a process of its own: what one leaves in an allocator or in the driver is not in the
 * next one's way. The caller has no threads and has not used the driver. */
#pragma once

#include "bench/commands.h"

typedef int apart_run(const struct options *options, struct rows *rows);

/* Adds the rows that `run` adds there. -ECHILD: it failed, and has told why. */
int apart_measure(apart_run *run, const struct options *options, struct rows *rows);
