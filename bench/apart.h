/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a measurement in a process of its own, so that its traces in an allocator or in the driver do not
 * influence the next one. The caller must have no threads and must not have used the driver. */
#pragma once

#include "bench/commands.h"

typedef int apart_run(const struct options *options, struct rows *rows);

/* Adds the rows that `run` makes. -ECHILD: it failed, and has printed why. */
int apart_measure(apart_run *run, const struct options *options, struct rows *rows);
