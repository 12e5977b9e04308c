/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants' statistics as metrics: a sample for each tenant, pool and field of proto/tenants.def. Pure. */
#pragma once

#include "metrics/figures.h"
#include "metrics/lines.h"

/* -ENOMEM. */
int tenants_put(struct lines *lines, const struct metrics_figures *figures);
