/* Figures for STATS_REPLY: the policy's own, and what clients report on their boards. */
#include <stdlib.h>

#include "base/err.h"
#include "base/memfd.h"
#include "daemon/server/session.h"
#include "proto/board.h"

static uint64_t at_most(uint64_t claimed, uint64_t limit)
{
        return claimed < limit ? claimed : limit;
}

/* A board is its client's to write: each number is read once, and bytes count no more than what the
 * client leases. */
static void add_claims(const struct session *session, uint32_t pool, struct stats_row *row)
{
        struct board_sums sums = board_sum(board_pool(session->board, pool));
        uint64_t charged = client_charged(session->client, pool);
        uint64_t allocated = at_most(sums.allocated, charged);

        row->allocated += allocated;
        row->requested += at_most(sums.requested, allocated);
        row->hits += sums.hits;
        row->misses += sums.misses;
}

static void add_clients(struct server *server, uint32_t pool, struct stats_row *row)
{
        struct session *session;

        LIST_FOREACH (session, &server->sessions, link) {
                if (session->state != SESSION_READY && session->state != SESSION_LEFT &&
                    session->state != SESSION_ORPHANED)
                        continue;
                if (client_charged(session->client, pool))
                        row->clients++;
                if (session->state == SESSION_READY)
                        add_claims(session, pool, row);
        }
}

static int fill(struct server *server, uint32_t pool, struct stats_row *row)
{
        struct pool_figures figures;
        int r = policy_pool_figures(server->policy, pool, &figures);

        if (r)
                return err_fold(r);
        *row = (struct stats_row){
                .pool = pool,
                .kind = server->pools[pool].row.kind,
                .max = figures.max,
                .reserved = figures.reserved,
                .reserved_peak = figures.reserved_peak,
                .leased = figures.leased,
                .cached = figures.cached,
                .lingering = figures.lingering,
                .charged = figures.charged,
                .declared = figures.declared,
                .blocks = figures.n_blocks,
                .leases = figures.n_leases,
                .waiting = figures.n_waiting,
                .cache_grants = figures.n_grants_from_cache,
                .creates = figures.n_creates,
                .releases = figures.n_releases,
                .refusals = figures.n_refusals,
        };
        add_clients(server, pool, row);
        return 0;
}

int stats_make(struct server *server, int *ret_fd)
{
        CLEANUP(freep)
        struct stats_row *rows = calloc(server->n_pools, sizeof(*rows));

        if (!rows)
                return -ENOMEM;
        for (uint32_t pool = 0; pool < server->n_pools; pool++) {
                int r = fill(server, pool, &rows[pool]);

                if (r)
                        return r;
        }
        return memfd_new_constant("gpumem-stats", rows, server->n_pools * sizeof(*rows), ret_fd);
}
