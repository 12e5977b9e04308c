/* SPDX-License-Identifier: Apache-2.0 */
/* Time from the end of GPU work to the word IDLE on the board. */
#pragma once

#include "bench/commands.h"

/* Adds its rows. */
int latency_measure(const struct options *options, struct rows *rows);
