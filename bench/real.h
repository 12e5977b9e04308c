/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "bench/commands.h"

/* Plays a trace of device memory through the library and gpumemd; adds rows beside the replay without a lag. */
int real_measure(const struct options *options, struct rows *rows);
