/* SPDX-License-Identifier: Apache-2.0 */
/* Turns a daemon's statistics into metrics for Prometheus, by proto/stats.def, proto/loop.def, proto/tenants.def
 * and metrics/own.def. Pure.
 *
 * The number of label values is bounded: a pool's id, its kind, its GPU's UUID or NUMA node, a state. Pids,
 * pointers and blocks are no labels. Tenants have labels, uid and container, only if their rows were read,
 * and only up to a maximum; the rest is added up. */
#pragma once

#include <stddef.h>

#include "metrics/figures.h"
#include "metrics/lines.h"

void metrics_deinit(struct metrics_figures *figures);

/* Renders the whole text, which the caller frees. -ENOMEM. */
int metrics_render(const struct metrics_figures *figures, enum metrics_format format,
                   char **ret_text, size_t *ret_n_bytes);
