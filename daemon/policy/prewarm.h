/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is there before a client asks for it, and how long what is cached stays there.
 *
 * A block that is prewarmed is unowned: it is cached for no tenant, and becomes that of the first one that
 * can use it, for life. Nobody has written to it, so it is as good as a new one; like all that is cached it
 * goes when others want room. How large the next one will be is not known, so that they are made in sizes of
 * powers of two, as many bytes of each.
 *
 * Of what is cached a pool keeps so much; what is more goes back to the driver when it has not been used
 * for some time, the one that was cached longest ago first. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/policy/state/public_types.h"

#define PREWARM_LEAST_BYTES (UINT64_C(4) << 20)
#define PREWARM_N_SIZES     7 /* up to 256 MiB */

/* What has been made so far, of each size. */
struct prewarm {
        uint64_t n_bytes[PREWARM_N_SIZES];
};

/* The size of the next block, of which there are so few bytes as of no other; no more than is left. 0: nothing
 * is. A multiple of 2 MiB if that is one. */
uint64_t prewarm_next(struct prewarm *prewarm, uint64_t n_left_bytes);

/* Has an unowned block made. GPUMEM_E_REFUSED: a request waits for memory, or there is no room for it, or it ends;
 * GPUMEM_E_TOO_MANY blocks; GPUMEM_E_STALLED; GPUMEM_E_NO_POOL; -ENOMEM. */
int policy_prewarm(struct policy *policy, uint32_t pool, uint64_t n_bytes, uint64_t now_ns);

/* From now on. POLICY_KEEP_FOR_EVER: what is cached stays until others want the room. GPUMEM_E_NO_POOL. */
int policy_set_pool_keep(struct policy *policy, uint32_t pool, uint64_t keep_bytes,
                         uint64_t return_after_ns);

/* Whether a pool has more cached than it keeps, and a scan may release some. */
bool policy_keeps_more(const struct policy *policy);

/* Releases what is over and old enough, after so many scans at most in each pool; the next call goes on where
 * this one ends. What a client would keep mapped is left alone: it would not come back. */
void policy_return_cached(struct policy *policy, unsigned n_scans, uint64_t now_ns);
