#include "client/pool/nearest.h"

#include <sched.h>

#include "base/err.h"
#include "driver/host.h"

#define NODE_UNKNOWN (-1)

static int nearest_node(const struct cuda *cuda)
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

/* With one node, as most machines have, there is nothing to find out. */
struct pool *nearest_pinned(struct pool *pools, uint32_t n_pools, const struct cuda *cuda)
{
        struct pool *end = pools + n_pools;
        struct pool *first = next_pinned(pools, end), *pool;
        int node;

        if (!first || !next_pinned(first + 1, end))
                return first;
        node = nearest_node(cuda);
        for (pool = first; pool; pool = next_pinned(pool + 1, end)) {
                if (pool->memory.node == node)
                        return pool;
        }
        return first;
}
