/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the commands that replay traces. */
#pragma once

#include "bench/commands.h"
#include "bench/replay.h"

/* The options of the command line. */
struct replay_options replayed_options(const struct options *options);

/* Prints a failure, also of the next two functions, on stderr. */
int replayed_told(int r, const char *file);
int replayed_read(const char *file, struct trace *ret_trace);

/* In percent. */
double replayed_hit_rate(const struct replay_figures *figures);
