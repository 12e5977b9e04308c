/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/prewarm.h"

#include "base/size.h"
#include "daemon/policy/objects/block.h"
#include "daemon/policy/objects/pool.h"
#include "daemon/policy/objects/tenant.h"
#include "daemon/policy/scheduling/fd_budget.h"
#include "gpumem.h"

#define BLOCK_UNIT (2 * MIB)

/* A rest below the smallest size is made as one block. */
uint64_t prewarm_next(struct prewarm *prewarm, uint64_t n_left_bytes)
{
        unsigned found = 0;

        if (n_left_bytes < 2 * PREWARM_LEAST_BYTES) {
                prewarm->n_bytes[0] += n_left_bytes;
                return n_left_bytes;
        }
        for (unsigned i = 1; i < PREWARM_N_SIZES && PREWARM_LEAST_BYTES << i <= n_left_bytes; i++) {
                if (prewarm->n_bytes[i] < prewarm->n_bytes[found])
                        found = i;
        }
        prewarm->n_bytes[found] += PREWARM_LEAST_BYTES << found;
        return PREWARM_LEAST_BYTES << found;
}

static int check(const struct policy *policy, uint32_t pool, uint64_t n_bytes)
{
        if (pool >= policy->n_pools)
                return GPUMEM_E_NO_POOL;
        if (n_bytes == 0 || n_bytes % BLOCK_UNIT)
                return GPUMEM_E_BAD_REQUEST;
        if (policy->pools[pool]->driver_status != DRIVER_SERVES)
                return GPUMEM_E_STALLED;
        if (policy->pools[pool]->closing || policy->pools[pool]->n_waiting ||
            pool_room(policy->pools[pool]) < n_bytes)
                return GPUMEM_E_REFUSED;
        return 0;
}

int policy_prewarm(struct policy *policy, uint32_t pool, uint64_t n_bytes, uint64_t now_ns)
{
        const struct tenant_key unowned = {.uid = POLICY_NO_UID};
        struct tenant *tenant;
        int r = check(policy, pool, n_bytes);

        if (now_ns > policy->now_ns)
                policy->now_ns = now_ns;
        if (!r)
                r = tenant_get(policy, &unowned, &unowned, &tenant);
        if (r)
                return r;
        policy->unowned = tenant;
        r = fd_budget_has_room(tenant, 1) ? block_prewarm(&tenant->holdings[pool], n_bytes)
                                          : GPUMEM_E_TOO_MANY;
        tenant_unref(tenant);
        return r;
}
