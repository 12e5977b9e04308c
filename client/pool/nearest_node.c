/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/nearest_node.h"

#include <sched.h>

#include "client/blocks/pool_state.h"
#include "driver/host.h"
#include "gpumem.h"

#define NODE_UNKNOWN (-1)

static int node_of_caller(const struct cuda *cuda)
{
        unsigned cpu, node;
        int of_device;

        if (cuda && host_device_node(cuda, &of_device) == 0)
                return of_device;
        return getcpu(&cpu, &node) == 0 ? (int)node : NODE_UNKNOWN;
}

static struct pool *next_pinned(struct pool *pool, const struct pool *end)
{
        while (pool < end && (pool->row.kind != GPUMEM_PINNED || pool->binding.is_missing))
                pool++;
        return pool < end ? pool : NULL;
}

/* With one pinned pool, as on most machines, the node does not matter. */
struct pool *nearest_node_pool(struct pool *pools, uint32_t n_pools, const struct cuda *cuda)
{
        struct pool *end = pools + n_pools;
        struct pool *first = next_pinned(pools, end), *pool;
        int node;

        if (!first || !next_pinned(first + 1, end))
                return first;
        node = node_of_caller(cuda);
        for (pool = first; pool; pool = next_pinned(pool + 1, end)) {
                if (pool->memory.node == node)
                        return pool;
        }
        return first;
}
