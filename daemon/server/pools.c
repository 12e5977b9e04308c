/* The pools of this machine: one a device, one of pinned memory. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/log.h"
#include "base/memfd.h"
#include "base/size.h"
#include "daemon/server/core.h"
#include "daemon/server/server.h"
#include "driver/device.h"
#include "gpumem.h"

#define PINNED_GRANULARITY (2 * MIB)

static void on_worker(void *argument)
{
        (void)uv_async_send(argument);
}

/* A pool in the policy, with its worker. Consumes `take_backing`. */
static int add(struct server *server, struct backing *take_backing, struct pool_row *row)
{
        struct policy_pool settings = {
                .kind = row->kind == GPUMEM_DEVICE ? POLICY_DEVICE : POLICY_PINNED,
                .max_bytes = row->n_max_bytes,
        };
        struct server_pool *pool = &server->pools[server->n_pools];
        char text[SIZE_TEXT_MAX];
        int r;

        r = policy_add_pool(server->policy, &settings, &row->id);
        if (r) {
                take_backing->free(take_backing);
                return r;
        }
        r = worker_new(take_backing, on_worker, &server->worker_wake, &pool->worker);
        if (r)
                return r;
        pool->row = *row;
        server->n_pools++;
        log_info("pool %" PRIu32 ": %s, at most %s", row->id, row->name,
                 size_format(row->n_max_bytes, text));
        return 0;
}

static int add_device(struct server *server, const struct server_options *options, int ordinal)
{
        struct pool_row row = {.kind = GPUMEM_DEVICE, .place = (uint32_t)ordinal};
        struct device device;
        struct backing *backing;
        int r;

        r = device_describe(options->cuda, ordinal, &device);
        if (r)
                return r;
        r = backing_device_new(options->cuda, ordinal, &backing);
        if (r)
                return r;
        memcpy(row.uuid, device.uuid, sizeof(row.uuid));
        proto_put_text(row.name, sizeof(row.name), device.name);
        row.n_capacity_bytes = device.n_bytes;
        row.n_max_bytes = settings_pool_max(options->settings, &row);
        row.n_granularity_bytes = device.n_granularity_bytes;
        return add(server, backing, &row);
}

static int add_pinned(struct server *server, const struct server_options *options)
{
        struct pool_row row = {.kind = GPUMEM_PINNED};
        struct backing *backing;
        int r;

        r = backing_pinned_new(&backing);
        if (r)
                return r;
        proto_put_text(row.name, sizeof(row.name), "pinned memory");
        row.n_capacity_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
        row.n_max_bytes = settings_pool_max(options->settings, &row);
        row.n_granularity_bytes = PINNED_GRANULARITY;
        return add(server, backing, &row);
}

/* The rows change with their limits only: one sealed copy serves everybody until then. */
static int publish(struct server *server)
{
        CLEANUP(freep)
        struct pool_row *rows = calloc(server->n_pools, sizeof(*rows));

        if (!rows)
                return -ENOMEM;
        for (uint32_t i = 0; i < server->n_pools; i++)
                rows[i] = server->pools[i].row;
        return memfd_new_constant("gpumem-pools", rows, server->n_pools * sizeof(*rows),
                                  &server->pools_fd);
}

int pools_make(struct server *server, const struct server_options *options)
{
        int count, r;

        r = device_count(options->cuda, &count);
        if (r)
                return r;
        if (count >= PROTO_POOLS_MAX)
                return -E2BIG;
        server->pools = calloc((size_t)count + 1, sizeof(*server->pools));
        if (!server->pools)
                return -ENOMEM;
        for (int ordinal = 0; ordinal < count; ordinal++) {
                r = add_device(server, options, ordinal);
                if (r) {
                        log_error("device %d: %s", ordinal, cuda_failure());
                        return r;
                }
        }
        r = add_pinned(server, options);
        return r ? r : publish(server);
}

int pools_republish(struct server *server)
{
        CLEANUP(closep)
        int before = steal_fd(&server->pools_fd);
        int r = publish(server);

        if (r)
                server->pools_fd = steal_fd(&before);
        return r;
}

void pools_free(struct server *server)
{
        for (uint32_t i = 0; i < server->n_pools; i++)
                server->pools[i].worker = worker_free(server->pools[i].worker);
        free(server->pools);
        closep(&server->pools_fd);
}
