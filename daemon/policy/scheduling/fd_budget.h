/* SPDX-License-Identifier: Apache-2.0 */
/* How many blocks there may be: the daemon keeps an fd open for each until it is back at the driver.
 *
 * A tenant may have another block as long as it has fewer than FD_BUDGET_SHARE times what is left for others:
 * one alone gets four fifths, two get four ninths each, and one that comes later finds something. */
#pragma once

#include <stdbool.h>

#include "daemon/policy/state/types.h"

#define FD_BUDGET_SHARE 4

struct scan_budget;

/* Blocks for which an fd is open, or will be. */
uint64_t fd_budget_n_open(const struct policy *policy);

/* The tenant may have so many blocks more. */
bool fd_budget_has_room(const struct tenant *tenant, uint32_t n_more);

/* There will be room for certain: blocks are released already, or are now, one for one: those that the tenant has
 * cached, one that others have, if that is enough, else those that the tenant does not use. */
bool fd_budget_recall(const struct request *request, struct scan_budget *budget);
