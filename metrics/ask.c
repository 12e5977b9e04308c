/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics/ask.h"

#include "base/clock.h"
#include "base/err.h"
#include "client/connection/query.h"
#include "gpumem.h"

static int ask(struct link *link, const struct query *query, void **ret_rows, uint32_t *ret_n_rows)
{
        struct frame request = FRAME_NULL;

        return query_ask(link, query, &request, NULL, ret_rows, ret_n_rows);
}

static int check_pools(struct metrics_figures *figures, uint32_t n_stats)
{
        if (!figures->n_pools || n_stats != figures->n_pools)
                return -EPROTO;
        for (uint32_t i = 0; i < figures->n_pools; i++) {
                struct pool_row *pool = &figures->pools[i];

                pool->name[sizeof(pool->name) - 1] = '\0';
                if (pool->id != figures->stats[i].pool || (i && pool->id <= pool[-1].id))
                        return -EPROTO;
        }
        return 0;
}

static int ask_pools(struct link *link, struct metrics_figures *figures)
{
        static const struct query pools = {MESSAGE_POOLS, MESSAGE_POOLS_REPLY,
                                           sizeof(struct pool_row)};
        static const struct query stats = {MESSAGE_STATS, MESSAGE_STATS_REPLY,
                                           sizeof(struct stats_row)};
        uint32_t n_stats;
        int r = ask(link, &pools, (void **)&figures->pools, &figures->n_pools);

        if (!r)
                r = ask(link, &stats, (void **)&figures->stats, &n_stats);
        return r ? r : check_pools(figures, n_stats);
}

static int ask_loop(struct link *link, struct metrics_figures *figures)
{
        int r = query_loop(link, &figures->loop);

        figures->has_loop = !r;
        return r == GPUMEM_E_UNKNOWN_KIND ? 0 : r;
}

int ask_figures(struct link *link, bool with_tenants, struct metrics_figures *ret_figures)
{
        static const struct query clients = {MESSAGE_CLIENTS, MESSAGE_CLIENTS_REPLY,
                                             sizeof(struct client_row)};
        static const struct query tenants = {MESSAGE_TENANTS, MESSAGE_TENANTS_REPLY,
                                             sizeof(struct tenant_row)};
        struct metrics_figures figures = {.is_up = true, .with_tenants = with_tenants};
        uint64_t since_ns = clock_now_ns();
        int r = ask_pools(link, &figures);

        if (!r)
                r = ask_loop(link, &figures);
        if (!r)
                r = ask(link, &clients, (void **)&figures.clients, &figures.n_clients);
        if (!r && with_tenants)
                r = ask(link, &tenants, (void **)&figures.tenants, &figures.n_tenants);
        if (r) {
                metrics_deinit(&figures);
                return r;
        }
        figures.answer_ns = clock_now_ns() - since_ns;
        *ret_figures = figures;
        return 0;
}

int ask_daemon(const char *socket_path, const char *program, uint32_t answer_ms, bool with_tenants,
               struct metrics_figures *ret_figures, uint64_t *ret_incarnation)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        const struct link_hello hello = {.program = program, .answer_ms = answer_ms};
        struct message_welcome welcome;
        struct link *link;
        int r = link_open(socket_path, &hello, &link, &welcome, &fds);

        if (r)
                return r;
        r = ask_figures(link, with_tenants, ret_figures);
        if (!r)
                *ret_incarnation = welcome.incarnation;
        link_free(link);
        return r;
}
