/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/lists/list_stats.h"

#include <stdlib.h>

#include "base/err.h"
#include "daemon/server/lists/board_stats.h"
#include "daemon/server/pools/device_watch.h"
#include "daemon/server/pools/driver_health.h"
#include "daemon/server/session/board_walk.h"
#include "daemon/server/session/reply_files.h"

static void add(const struct session *session, struct board_total *totals)
{
        for (uint32_t pool = 0; pool < session->server->n_pools; pool++) {
                struct board_stats stats = board_stats_read(session, pool);
                struct board_total *total = &totals[pool];

                total->n_clients += client_charged(session->client, pool) != 0;
                total->allocated += stats.allocated;
                total->requested += stats.requested;
                board_stats_add(&total->hits, stats.hits);
                board_stats_add(&total->misses, stats.misses);
        }
}

void list_stats_begin(struct session *session, const struct frame *request,
                      void (*answer)(struct session *session, const struct frame *request))
{
        board_walk_begin(session, request, add, answer);
}

static int fill(struct server *server, uint32_t pool, const struct board_total *total,
                struct stats_row *row)
{
        struct pool_stats stats;
        int r = policy_pool_stats(server->policy, pool, &stats);

        if (r)
                return err_fold(r);
        *row = (struct stats_row){
                .pool = pool,
                .kind = server->pools[pool].row.kind,
                .max = stats.max,
                .reserved = stats.reserved,
                .reserved_peak = stats.reserved_peak,
                .leased = stats.leased,
                .cached = stats.cached,
                .idle = policy_idle_bytes(server->policy, pool),
                .lingering = stats.lingering,
                .charged = stats.charged,
                .declared = stats.declared,
                .blocks = stats.n_blocks,
                .leases = stats.n_leases,
                .waiting = stats.n_waiting,
                .cache_grants = stats.n_grants_from_cache,
                .creates = stats.n_creates,
                .releases = stats.n_releases,
                .refusals = stats.n_refusals,
                .revocations = stats.n_revocations,
                .known_grants = stats.n_known_grants,
                .notices = stats.n_notices,
                .steps = server->scheduler.stats.n_steps,
                .late_steps = server->scheduler.stats.n_late,
                .longest_step = server->scheduler.stats.longest_ns,
        };
        driver_health_fill(server, pool, row);
        device_watch_fill(&server->pools[pool], stats.reserved, row);
        row->clients = total->n_clients;
        row->allocated = total->allocated;
        row->requested = total->requested;
        row->hits = total->hits;
        row->misses = total->misses;
        return 0;
}

int list_stats_make(struct session *session, int *ret_fd)
{
        struct server *server = session->server;
        CLEANUP(freep)
        struct stats_row *rows = calloc(server->n_pools, sizeof(*rows));

        if (!rows)
                return -ENOMEM;
        for (uint32_t pool = 0; pool < server->n_pools; pool++) {
                int r = fill(server, pool, &session->board_walk->totals[pool], &rows[pool]);

                if (r)
                        return r;
        }
        return reply_files_make(session, rows, server->n_pools * sizeof(*rows), ret_fd);
}
