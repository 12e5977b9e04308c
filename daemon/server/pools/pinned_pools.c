/* The pinned pools of this machine, one a NUMA node. */
#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "base/size.h"
#include "daemon/backing/pinned/nodes.h"
#include "daemon/server/pools/pools.h"
#include "daemon/server/core/server_options.h"
#include "driver/cuda.h"
#include "gpumem.h"

#define GRANULARITY (2 * MIB)

/* What is usual goes without saying: one node, pages of 4 KiB. */
static void name_pool(char *name, size_t n_name, const struct nodes *nodes, int node,
                      const char *backing)
{
        char which[32] = "";

        if (nodes->n > 1)
                (void)snprintf(which, sizeof(which), " of node %d", node);
        (void)snprintf(name, n_name, "pinned memory%s%s%s%s", which, backing ? " (" : "",
                       backing ? backing : "", backing ? ")" : "");
}

static int add(struct server *server, const struct server_options *options,
               const struct nodes *nodes, int node)
{
        struct pool_row row = {.kind = GPUMEM_PINNED, .place = (uint32_t)node};
        struct node_memory memory;
        struct backing *backing;
        int r;

        node_read_memory(NODES_ROOT, node, &memory);
        row.n_capacity_bytes = memory.n_total_bytes;
        row.n_granularity_bytes = GRANULARITY;
        if (settings_pinned_backing(options->settings, &row) == PINNED_VMM) {
                row.properties = PROTO_POOL_VMM;
                name_pool(row.name, sizeof(row.name), nodes, node, "vmm");
                r = backing_pinned_vmm_new(options->cuda, node, &backing);
        } else {
                name_pool(row.name, sizeof(row.name), nodes, node,
                          memory.n_huge_pages ? "2 MiB pages" : NULL);
                r = backing_pinned_new(node, row.name, server->sweeper, &backing);
        }
        row.n_max_bytes = settings_pool_max(options->settings, &row);
        return r ? r : pools_add(server, backing, &row);
}

int pinned_pools_make(struct server *server, const struct server_options *options,
                      const struct nodes *nodes)
{
        for (unsigned i = 0; i < nodes->n; i++) {
                int r = add(server, options, nodes, nodes->ids[i]);

                if (r)
                        return r;
        }
        return 0;
}
