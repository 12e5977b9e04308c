/* SPDX-License-Identifier: Apache-2.0 */
/* Prewarming: blocks that exist before a client asks for them.
 *
 * A prewarmed block is unowned: it is cached for no tenant. The first tenant that can use it becomes its
 * tenant for ever. No process has written to it, so it is as good as a new block. Like all cached blocks it
 * is released when other requests need room. The sizes of later requests are unknown, so blocks are made in
 * sizes of powers of two, with equal bytes of each. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/policy/state/public_types.h"

#define PREWARM_LEAST_BYTES (UINT64_C(4) << 20)
#define PREWARM_N_SIZES     7 /* up to 256 MiB */

/* Bytes made so far, of each size. */
struct prewarm {
        uint64_t n_bytes[PREWARM_N_SIZES];
};

/* The size of the next block: the size with the fewest bytes, at most n_left_bytes. 0: nothing is left. A
 * multiple of 2 MiB if n_left_bytes is one. */
uint64_t prewarm_next(struct prewarm *prewarm, uint64_t n_left_bytes);

/* Creates an unowned block. GPUMEM_E_REFUSED: a request waits for memory, there is no room, or the policy
 * shuts down; GPUMEM_E_TOO_MANY blocks; GPUMEM_E_STALLED; GPUMEM_E_NO_POOL; -ENOMEM. */
int policy_prewarm(struct policy *policy, uint32_t pool, uint64_t n_bytes, uint64_t now_ns);
