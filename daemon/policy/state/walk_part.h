/* SPDX-License-Identifier: Apache-2.0 */
/* What a part of a walk may do among cached blocks: policy->n_looks_left, where a release counts as many looks. A request
 * for which that is too few is met again in the next part. Without turns there are as many as are wanted. */
#pragma once

#include "daemon/policy/state/types.h"

/* Blocks that a search passes, in the time of one item. */
#define PART_LOOKS_AN_ITEM 4

/* A block that goes back, with what the server does for it; at a client's end, and where all are to go, too. */
#define PART_RELEASE_ITEMS 8

static inline void part_count_looks(struct policy *policy, unsigned n)
{
        policy->n_looks_left -= n < policy->n_looks_left ? n : policy->n_looks_left;
}

static inline void part_count_release(struct policy *policy)
{
        part_count_looks(policy, PART_RELEASE_ITEMS * PART_LOOKS_AN_ITEM);
}
