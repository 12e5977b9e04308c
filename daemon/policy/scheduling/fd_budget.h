/* SPDX-License-Identifier: Apache-2.0 */
/* How many blocks there may be: the daemon keeps a fd open for each until its memory is back at the driver.
 *
 * What is left for others, eight times, is the most that a tenant and its owner may have when they are added. So one
 * tenant alone gets four fifths, and two of two owners get four ninths each. All tenants of one owner get eight ninths:
 * a user can have any number of tenants.
 *
 * Users that come one after the other would leave nothing in the end. So a part of all is kept. Half of it is for owners
 * that have no block: each finds one there. The other half is for tenants that have none, though their owner has some. Of
 * that half an owner may take more while it has less than what is left of it; what its tenants took for their first blocks
 * beyond the eight ninths counts, too. */
#pragma once

#include <stdbool.h>

#include "daemon/policy/state/types.h"

#define FD_BUDGET_SHARE     8
#define FD_BUDGET_KEPT_PART 16

struct scan_budget;

/* Blocks with a fd open, now or later. */
uint64_t fd_budget_n_open(const struct policy *policy);

/* Whether the tenant may have so many more blocks. */
bool fd_budget_has_room(const struct tenant *tenant, uint32_t n_more);

/* Whether there will be room for certain. Blocks are being released already, or are released now, one for
 * each that is needed: the tenant's cached ones, one of other tenants' if that is enough, else the tenant's
 * idle ones. */
bool fd_budget_recall(const struct request *request, struct scan_budget *budget);
