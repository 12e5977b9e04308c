/* SPDX-License-Identifier: Apache-2.0 */
/* Aging: memory that no process has used for some time goes back to the driver.
 *
 * A cached block goes when its last use ended so long ago, while more than keep_bytes are cached. A block that looks
 * had found idle before it was cached has been unused since the first of them. Of several the one that was cached first
 * goes first. A lease goes when every look has found it idle for so long, unless its tenant would be left with less
 * than the pool's min_bytes in leases. Its block is cached while less than keep_bytes are, and goes back to the driver
 * otherwise. So keep_bytes stay, whichever process had them last.
 *
 * No message tells when a lease becomes idle, or is used again: that is what the looks are for. A lease that was used
 * for a moment between two looks counts as idle. Blocks that clients keep mapped are left alone, since their memory
 * would not come back. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/policy/state/public_types.h"

/* Sets how much stays cached, and for how long the rest does. POLICY_KEEP_FOR_EVER: until others need the room.
 * GPUMEM_E_NO_POOL. */
int policy_set_pool_keep(struct policy *policy, uint32_t pool, uint64_t keep_bytes,
                         uint64_t return_after_ns);

/* Whether a pool has leases that may become idle, or more cached than it keeps, so that a look may find something. */
bool policy_ages(const struct policy *policy);

/* Looks at so many blocks, or fewer where some go, and gives back what is old. The next call goes on where this one
 * ends. Returns false when the last block of the last pool has been looked at. Blocks go only whole. */
bool policy_age(struct policy *policy, unsigned n_looks, uint64_t now_ns);

/* The device has too little free for programs that allocate without the daemon: from now on unused memory of the pool
 * goes back, whatever it keeps, until n_bytes more are on their way: cached blocks, the oldest first, those that no
 * client maps before others; then idle leases, as above. Last comes what clients have that are known not to unmap. */
void policy_give_back(struct policy *policy, uint32_t pool, uint64_t n_bytes);

/* The next part of that, in all pools: looks at so many blocks, or fewer where some go. Returns whether more is to be
 * given back, and not all has been looked at. */
bool policy_give_some_back(struct policy *policy, unsigned n_looks, uint64_t now_ns);
