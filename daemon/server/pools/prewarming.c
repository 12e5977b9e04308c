/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/pools/prewarming.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "base/size.h"
#include "daemon/server/core/pool_settings.h"
#include "daemon/server/core/server_options.h"
#include "gpumem.h"

#define STATUS_MAX 200

static uint64_t reserved_bytes(const struct server *server, uint32_t id)
{
        struct pool_stats stats = {0};

        (void)policy_pool_stats(server->policy, id, &stats);
        return stats.reserved;
}

static bool is_any_under_way(const struct server *server)
{
        for (uint32_t i = 0; i < server->n_pools; i++) {
                if (server->pools[i].prewarming.is_under_way)
                        return true;
        }
        return false;
}

static bool is_shutting_down(const struct server *server)
{
        return server->stopping || policy_is_draining(server->policy);
}

/* After the report of a shutdown, "ready" must not be reported. */
static void tell_ready(struct server *server)
{
        if (server->prewarming.is_ready || is_shutting_down(server) || is_any_under_way(server))
                return;
        server->prewarming.is_ready = true;
        if (server->on_ready)
                server->on_ready();
}

static void report_status(struct server *server)
{
        char status[STATUS_MAX], made[SIZE_TEXT_MAX], wanted[SIZE_TEXT_MAX];
        uint64_t n_made_bytes = 0, n_wanted_bytes = 0, now_ns = server_now_ns(server);

        if (server->prewarming.is_ready || !server->on_status ||
            now_ns < server->prewarming.reported_ns + NS_PER_S)
                return;
        server->prewarming.reported_ns = now_ns;
        for (uint32_t i = 0; i < server->n_pools; i++) {
                n_made_bytes += server->pools[i].prewarming.n_made_bytes;
                n_wanted_bytes += server->pools[i].prewarming.n_wanted_bytes;
        }
        (void)snprintf(status, sizeof(status), "prewarming: %s of %s",
                       size_format(n_made_bytes, made), size_format(n_wanted_bytes, wanted));
        server->on_status(status);
}

static void end(struct server *server, uint32_t id, const char *why)
{
        struct server_pool *pool = &server->pools[id];
        double seconds = (double)(server_now_ns(server) - pool->prewarming.since_ns) / 1e9;
        char made[SIZE_TEXT_MAX], wanted[SIZE_TEXT_MAX];

        pool->prewarming.is_under_way = false;
        (void)size_format(pool->prewarming.n_made_bytes, made);
        (void)size_format(pool->prewarming.n_wanted_bytes, wanted);
        if (why && is_shutting_down(server))
                log_info("pool %" PRIu32
                         " (%s): prewarming stopped after %s of %s: gpumemd is shutting down",
                         id, pool->row.name, made, wanted);
        else if (why)
                log_warning("pool %" PRIu32 " (%s): prewarming stopped after %s of %s: %s", id,
                            pool->row.name, made, wanted, why);
        else
                log_info("pool %" PRIu32 " (%s): prewarmed %s of %s in %.1f s", id, pool->row.name,
                         made, wanted, seconds);
        tell_ready(server);
}

static const char *why_not(int r)
{
        switch (r) {
        case GPUMEM_E_REFUSED:
                return "the pool has no room for more, or a client waits for memory";
        case GPUMEM_E_TOO_MANY:
                return "gpumemd has no file descriptors for more blocks; raise LimitNOFILE";
        case GPUMEM_E_STALLED:
                return "the driver does not answer";
        default:
                return "out of memory in gpumemd";
        }
}

/* Creates the next block, or ends. */
static void step(struct server *server, uint32_t id)
{
        struct server_pool *pool = &server->pools[id];
        uint64_t n_bytes = prewarm_next(&pool->prewarming.sizes,
                                        pool->prewarming.n_wanted_bytes -
                                                pool->prewarming.n_made_bytes);
        int r;

        if (!n_bytes || is_shutting_down(server)) {
                end(server, id, n_bytes ? "shutdown" : NULL);
                return;
        }
        r = policy_prewarm(server->policy, id, n_bytes, server_now_ns(server));
        if (r)
                end(server, id, why_not(r));
        report_status(server);
}

/* Prewarms whole blocks, within the pool's maximum. */
static void start(struct server *server, uint32_t id, uint64_t warm_bytes)
{
        struct server_pool *pool = &server->pools[id];
        uint64_t n_bytes = warm_bytes < pool->row.n_max_bytes ? warm_bytes : pool->row.n_max_bytes;
        uint64_t n_reserved_bytes = reserved_bytes(server, id);
        char text[SIZE_TEXT_MAX];

        n_bytes &= ~(SETTINGS_POOL_BYTES_MIN - 1);
        if (is_shutting_down(server) || pool->prewarming.is_under_way ||
            n_bytes <= n_reserved_bytes)
                return;
        n_bytes = (n_bytes - n_reserved_bytes) & ~(SETTINGS_POOL_BYTES_MIN - 1);
        if (!n_bytes)
                return;
        pool->prewarming.is_under_way = true;
        pool->prewarming.sizes = (struct prewarm){{0}};
        pool->prewarming.n_made_bytes = 0;
        pool->prewarming.n_wanted_bytes = n_bytes;
        pool->prewarming.since_ns = server_now_ns(server);
        log_info("pool %" PRIu32 " (%s): prewarming %s", id, pool->row.name,
                 size_format(n_bytes, text));
        step(server, id);
}

static void set_stocks(struct server *server, const struct settings *settings)
{
        for (uint32_t i = 0; i < server->n_pools; i++)
                server->pools[i].stock = pool_settings_stock(settings, &server->pools[i].row);
}

void prewarming_open(struct server *server, const struct server_options *options)
{
        server->on_ready = options->on_ready;
        set_stocks(server, options->settings);
}

void prewarming_begin(struct server *server)
{
        for (uint32_t i = 0; i < server->n_pools; i++)
                start(server, i, server->pools[i].stock.warm_bytes);
        tell_ready(server);
        server_execute(server);
}

void prewarming_apply_settings(struct server *server, const struct settings *settings)
{
        set_stocks(server, settings);
        for (uint32_t i = 0; i < server->n_pools; i++)
                start(server, i, server->pools[i].stock.warm_bytes);
}

void prewarming_continue(struct server *server, uint32_t id, uint64_t n_bytes, const char *failure)
{
        struct server_pool *pool = &server->pools[id];

        if (!pool->prewarming.is_under_way)
                return;
        if (failure) {
                end(server, id, *failure ? failure : "the driver does not create it");
                return;
        }
        pool->prewarming.n_made_bytes += n_bytes;
        step(server, id);
}

void prewarming_stop(struct server *server, uint32_t id, const char *why)
{
        if (server->pools[id].prewarming.is_under_way)
                end(server, id, why);
}
