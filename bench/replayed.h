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

/* Plays a whole trace. */
int replayed_play(const struct trace *trace, const struct replay_options *options,
                  struct replay_figures *ret_figures);

/* In percent. */
double replayed_hit_rate(const struct replay_figures *figures);

/* Of the peaks. */
double replayed_over_live(const struct replay_figures *figures);

/* What no other process could take beside what was requested, on average. */
double replayed_pinned_over_live(const struct replay_figures *figures);

/* A bounded row of the figure. -ENOMEM. */
int replayed_add(struct rows *rows, const char *name, const char *unit, double value, double bound,
                 enum row_limit limit);
