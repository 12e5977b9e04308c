/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/pools/pools.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/log.h"
#include "base/memfd.h"
#include "base/size.h"
#include "daemon/backing/pinned/nodes.h"
#include "daemon/backing/worker/fd_closer.h"
#include "daemon/server/core/pool_settings.h"
#include "daemon/server/core/server_options.h"
#include "daemon/server/pools/device_watch.h"
#include "daemon/server/pools/gpu_file_access.h"
#include "daemon/server/session/session.h"
#include "driver/device.h"
#include "gpumem.h"

#define PINNED_GRANULARITY (2 * MIB)

static void on_worker(void *argument)
{
        wake_send(argument);
}

/* Adds a pool to the policy and starts its worker. Consumes `take_backing`; sets the row's id. */
static int add_pool(struct server *server, struct backing *take_backing, struct pool_row *row)
{
        struct policy_pool settings = {
                .kind = row->kind == GPUMEM_DEVICE ? POLICY_DEVICE : POLICY_PINNED,
                .max_bytes = row->n_max_bytes,
                .capacity_bytes = row->n_capacity_bytes,
        };
        struct server_pool *pool = &server->pools[server->n_pools];
        char text[SIZE_TEXT_MAX];
        int r = policy_add_pool(server->policy, &settings, &row->id);

        if (r) {
                take_backing->free(take_backing);
                return r;
        }
        r = worker_new(take_backing, on_worker, &server->worker_wake, &pool->worker);
        if (r)
                return r;
        pool->row = *row;
        TAILQ_INIT(&pool->device.held);
        TAILQ_INIT(&pool->device.answered);
        TAILQ_INIT(&pool->driver.retries);
        nvml_report_init(&pool->device.report);
        server->n_pools++;
        log_info("pool %" PRIu32 " (%s): at most %s", row->id, row->name,
                 size_format(row->n_max_bytes, text));
        return 0;
}

/* Warns of the drawbacks of the setting before a program relies on the memory. */
static void warn_of_legacy(const struct pool_row *row)
{
        log_warning("%s: \"ipc\" is \"legacy\": any user who learns a handle can open the memory; "
                    "memory that no program has open is lost when gpumemd ends; memory that a "
                    "program has open cannot be opened by others after that; freed memory stays in "
                    "use until the last program has closed it; gpumemd has a CUDA context, which "
                    "takes some 500 MiB of the GPU (527 MiB on an H200)",
                    row->name);
}

static int back_device(const struct server_options *options, struct pool_row *row,
                       struct backing **ret_backing)
{
        if (pool_settings_ipc(options->settings, row) != IPC_LEGACY)
                return backing_device_new(options->cuda, (int)row->place, ret_backing);
        row->properties = PROTO_POOL_LEGACY;
        warn_of_legacy(row);
        return backing_device_legacy_new(options->cuda, (int)row->place, ret_backing);
}

static int add_device(struct server *server, const struct server_options *options, int ordinal)
{
        struct pool_row row = {.kind = GPUMEM_DEVICE, .place = (uint32_t)ordinal};
        struct device device;
        struct backing *backing;
        int r = device_describe(options->cuda, ordinal, &device);

        if (r)
                return r;
        memcpy(row.uuid, device.uuid, sizeof(row.uuid));
        proto_put_text(row.name, sizeof(row.name), device.name);
        r = back_device(options, &row, &backing);
        if (r)
                return r;
        row.n_capacity_bytes = device.n_bytes;
        row.n_max_bytes = pool_settings_max(options->settings, &row);
        row.n_granularity_bytes = device.n_granularity_bytes;
        r = add_pool(server, backing, &row);
        if (r)
                return r;
        server->pools[row.id].has_rdma = device.has_rdma;
        gpu_file_access_find(&server->pools[row.id]);
        if (ordinal < CANARY_DEVICES_MAX && options->canaries[ordinal] == CANARY_DIRTY)
                device_watch_mark_dirty(server, &server->pools[row.id]);
        return 0;
}

/* The name omits what is usual: a single node, memfds, pages of 4 KiB. */
static void name_pinned(char *name, size_t n_name, const struct nodes *nodes, int node,
                        const char *backing)
{
        char which[32] = "";

        if (nodes->n > 1)
                (void)snprintf(which, sizeof(which), " of node %d", node);
        (void)snprintf(name, n_name, "pinned memory%s%s%s%s", which, backing ? " (" : "",
                       backing ? backing : "", backing ? ")" : "");
}

static int add_pinned(struct server *server, const struct server_options *options,
                      const struct nodes *nodes, int node)
{
        struct pool_row row = {.kind = GPUMEM_PINNED, .place = (uint32_t)node};
        struct node_memory memory;
        struct backing *backing;
        int r;

        node_read_memory(NODES_ROOT, node, &memory);
        row.n_capacity_bytes = memory.n_total_bytes;
        row.n_granularity_bytes = PINNED_GRANULARITY;
        if (pool_settings_backing(options->settings, &row) == PINNED_VMM) {
                row.properties = PROTO_POOL_VMM;
                name_pinned(row.name, sizeof(row.name), nodes, node, "vmm");
                r = backing_pinned_vmm_new(options->cuda, node, &backing);
        } else {
                name_pinned(row.name, sizeof(row.name), nodes, node,
                            memory.n_huge_pages ? "2 MiB pages" : NULL);
                r = backing_pinned_new(node, row.name, server->sweeper, &backing);
        }
        row.n_max_bytes = pool_settings_max(options->settings, &row);
        return r ? r : add_pool(server, backing, &row);
}

/* One pool for each NUMA node. */
static int add_all_pinned(struct server *server, const struct server_options *options,
                          const struct nodes *nodes)
{
        for (unsigned i = 0; i < nodes->n; i++) {
                int r = add_pinned(server, options, nodes, nodes->ids[i]);

                if (r)
                        return r;
        }
        return 0;
}

/* The rows change only with their limits, so one sealed copy serves all clients until then. */
static int publish(struct server *server)
{
        CLEANUP(freep)
        struct pool_row *rows = NULL;

        assert(server->n_pools > 0);
        rows = calloc(server->n_pools, sizeof(*rows));
        if (!rows)
                return -ENOMEM;
        for (uint32_t i = 0; i < server->n_pools; i++)
                rows[i] = server->pools[i].row;
        return memfd_new_constant("gpumem-pools", rows, server->n_pools * sizeof(*rows),
                                  &server->pools_fd);
}

int pools_publish_changes(struct server *server)
{
        int before, r;

        if (!server->pools_have_changed)
                return 0;
        before = steal_fd(&server->pools_fd);
        r = publish(server);
        if (r) {
                server->pools_fd = before;
                return r;
        }
        fd_closer_take_file(server->closer, before);
        server->pools_have_changed = false;
        return 0;
}

void pools_set_max(struct server *server, uint32_t pool, uint64_t max_bytes)
{
        char text[SIZE_TEXT_MAX];

        server->pools[pool].row.n_max_bytes = max_bytes;
        server->pools_have_changed = true;
        (void)policy_set_pool_max(server->policy, pool, max_bytes, server_now_ns(server));
        log_info("pool %u (%s): at most %s", pool, server->pools[pool].row.name,
                 size_format(max_bytes, text));
}

/* Warns if a tenant may keep the whole pool: idle memory is then never taken for another tenant. */
void pools_check_min(const struct server *server, uint32_t id)
{
        const struct server_pool *pool = &server->pools[id];
        uint64_t max_bytes = pool->row.n_max_bytes;
        char min[SIZE_TEXT_MAX], max[SIZE_TEXT_MAX];

        if (pool->min_bytes >= max_bytes)
                log_warning("%s: min_bytes %s is not below the pool's maximum of %s: idle memory "
                            "is never taken from one tenant for another",
                            pool->row.name, size_format(pool->min_bytes, min),
                            size_format(max_bytes, max));
}

void pools_set_min(struct server *server, uint32_t id, uint64_t min_bytes)
{
        struct server_pool *pool = &server->pools[id];
        char text[SIZE_TEXT_MAX];

        if (min_bytes == pool->min_bytes)
                return;
        pool->min_bytes = min_bytes;
        (void)policy_set_pool_min(server->policy, id, min_bytes, server_now_ns(server));
        log_info("pool %u (%s): each tenant keeps %s of its leases", id, pool->row.name,
                 size_format(min_bytes, text));
}

void pools_set_mins(struct server *server, const struct settings *settings)
{
        for (uint32_t i = 0; i < server->n_pools; i++) {
                pools_set_min(server, i, pool_settings_min(settings, &server->pools[i].row));
                pools_check_min(server, i);
        }
}

int pools_make(struct server *server, const struct server_options *options)
{
        struct nodes nodes;
        int count, r;

        nodes_read(NODES_ROOT, &nodes);
        r = device_count(options->cuda, &count);
        if (r)
                return r;
        if (count > PROTO_POOLS_MAX - NODES_MAX)
                return -E2BIG;
        server->pools = calloc((size_t)count + nodes.n, sizeof(*server->pools));
        if (!server->pools)
                return -ENOMEM;
        for (int ordinal = 0; ordinal < count; ordinal++) {
                r = add_device(server, options, ordinal);
                if (r) {
                        log_error("device %d: %s", ordinal,
                                  r == -ENOMEM ? strerror(ENOMEM) : cuda_failure());
                        return r;
                }
        }
        r = add_all_pinned(server, options, &nodes);
        if (r)
                return r;
        pools_set_mins(server, options->settings);
        return publish(server);
}

void pools_check_integrity(struct server *server, struct client *client, uint64_t lease_id)
{
        const struct session *session = client_owner(client);
        struct block *block = policy_leased_block(client, lease_id);
        const struct backing_block *backing = block ? block_backing(block) : NULL;
        uint32_t pool;

        if (!backing)
                return;
        pool = block_pool(block);
        if (worker_look(server->pools[pool].worker, backing) == BACKING_WHOLE)
                return;
        if (server_may_complain(server))
                log_info("client %d (%s): a block of %s came back with holes; it is not reused",
                         (int)session->peer.pid, session->program, server->pools[pool].row.name);
        policy_mark_unusable(server->policy, block, server_now_ns(server));
}

void pools_cancel(struct server *server)
{
        for (uint32_t i = 0; i < server->n_pools; i++)
                worker_cancel(server->pools[i].worker);
}

void pools_free(struct server *server)
{
        for (uint32_t i = 0; i < server->n_pools; i++)
                server->pools[i].worker = worker_free(server->pools[i].worker);
        free(server->pools);
        closep(&server->pools_fd);
}
