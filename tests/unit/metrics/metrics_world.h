/* SPDX-License-Identifier: Apache-2.0 */
/* Figures as a daemon may tell them, and some that it never should: for tests of their text. */
#pragma once

#include "metrics/metrics.h"

/* Two devices and a pinned pool, three clients, and so many tenants with rows in the first pool. Deinit
 * with metrics_deinit. */
void figures_make(struct metrics_figures *ret_figures, uint32_t n_tenants);

/* As figures_make, with a tenant in a device's pool and in the pinned one: each label that there is. */
void figures_make_all(struct metrics_figures *ret_figures);

/* As figures_make, with names that would end a label, a line or a text, and figures that do not fit. */
void figures_make_hostile(struct metrics_figures *ret_figures);
