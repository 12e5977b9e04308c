/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands that replay traces share. */
#pragma once

#include "bench/commands.h"
#include "bench/replay.h"

/* As the command line says. */
struct replay_options replayed_options(const struct options *options);

/* Failures, of these two too, are told on stderr. */
int replayed_told(int r, const char *file);
int replayed_read(const char *file, struct trace *ret_trace);

/* In percent. */
double replayed_hit_rate(const struct replay_figures *figures);
