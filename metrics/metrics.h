/* SPDX-License-Identifier: Apache-2.0 */
/* A daemon's figures as metrics for Prometheus, after proto/stats.def, proto/tenants.def and metrics/own.def. Pure.
 *
 * Labels are bounded: a pool's id, its kind, its GPU's UUID or its NUMA node, a state. No pid, no pointer, no block.
 * Tenants, by uid and container, only where the figures hold their rows, and so many of them: the others are one. */
#pragma once

#include <stddef.h>

#include "metrics/figures.h"
#include "metrics/lines.h"

void metrics_deinit(struct metrics_figures *figures);

/* The whole text, the caller's to free. -ENOMEM. */
int metrics_render(const struct metrics_figures *figures, enum metrics_format format,
                   char **ret_text, size_t *ret_n_bytes);
