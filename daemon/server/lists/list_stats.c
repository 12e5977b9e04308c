/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/lists/list_stats.h"

#include <stdlib.h>

#include "base/err.h"
#include "daemon/server/lists/board_stats.h"
#include "daemon/server/pools/device_watch.h"
#include "daemon/server/pools/driver_health.h"
#include "daemon/server/session/rate_limit.h"
#include "daemon/server/session/reply_files.h"

static void add_client(const struct session *session, uint32_t pool, struct stats_row *row)
{
        struct board_stats stats = board_stats_read(session, pool);

        if (client_charged(session->client, pool))
                row->clients++;
        row->allocated += stats.allocated;
        row->requested += stats.requested;
        board_stats_add(&row->hits, stats.hits);
        board_stats_add(&row->misses, stats.misses);
}

/* Adds the clients' counters to the row. Returns the number of clients. */
static uint32_t add_clients(struct server *server, uint32_t pool, struct stats_row *row)
{
        struct session *session;
        uint32_t n = 0;

        LIST_FOREACH (session, &server->sessions, link) {
                if (session_has_client(session))
                        add_client(session, pool, row);
                n++;
        }
        return n;
}

static int fill(struct server *server, uint32_t pool, struct stats_row *row, uint64_t *n_looks)
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
        };
        driver_health_fill(server, pool, row);
        device_watch_fill(&server->pools[pool], stats.reserved, row);
        *n_looks += add_clients(server, pool, row);
        return 0;
}

int list_stats_make(struct session *session, int *ret_fd)
{
        struct server *server = session->server;
        CLEANUP(freep)
        struct stats_row *rows = calloc(server->n_pools, sizeof(*rows));
        uint64_t n_looks = 0;

        if (!rows)
                return -ENOMEM;
        for (uint32_t pool = 0; pool < server->n_pools; pool++) {
                int r = fill(server, pool, &rows[pool], &n_looks);

                if (r)
                        return r;
        }
        rate_limit_take_rows(session, server->n_pools, n_looks);
        return reply_files_make(session, rows, server->n_pools * sizeof(*rows), ret_fd);
}
