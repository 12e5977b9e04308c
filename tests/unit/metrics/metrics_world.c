/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/metrics/metrics_world.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpumem.h"

#define N_POOLS 3

static void *rows_of(size_t n, size_t n_bytes)
{
        void *rows = calloc(n + 1, n_bytes);

        assert(rows);
        return rows;
}

static void fill_pool(struct pool_row *pool, struct stats_row *stats, uint32_t id)
{
        bool is_device = id + 1 < N_POOLS;

        *pool = (struct pool_row){.id = id,
                                  .kind = is_device ? GPUMEM_DEVICE : GPUMEM_PINNED,
                                  .place = is_device ? id : 0,
                                  .uuid = {(uint8_t)(id + 1), 0xab},
                                  .n_capacity_bytes = 1 << 30};
        (void)snprintf(pool->name, sizeof(pool->name), "pool %u", id);
        *stats = (struct stats_row){.pool = id,
                                    .kind = pool->kind,
                                    .max = 1000,
                                    .reserved = 10 * (id + 1),
                                    .refusals = 7,
                                    .device = PROTO_DEVICE_WELL,
                                    .driver = PROTO_DRIVER_STALLED,
                                    .driver_for = 12034,
                                    .fragmentation = 250,
                                    .device_free = is_device ? 5 : PROTO_FIGURE_UNKNOWN,
                                    .device_others = id == 1 ? 9 : PROTO_FIGURE_UNKNOWN};
}

void figures_make(struct metrics_figures *ret_figures, uint32_t n_tenants)
{
        struct metrics_figures figures = {.is_up = true,
                                          .answer_ns = 1500000,
                                          .has_loop = true,
                                          .loop = {.steps = 12345,
                                                   .late_steps = 2,
                                                   .late_after = 100000,
                                                   .longest_step = 123456,
                                                   .busy = 5000000001,
                                                   .age = 90000000000},
                                          .n_pools = N_POOLS,
                                          .n_clients = 3,
                                          .with_tenants = n_tenants > 0,
                                          .n_tenants = n_tenants};

        figures.pools = rows_of(N_POOLS, sizeof(*figures.pools));
        figures.stats = rows_of(N_POOLS, sizeof(*figures.stats));
        figures.clients = rows_of(figures.n_clients, sizeof(*figures.clients));
        figures.tenants = rows_of(n_tenants, sizeof(*figures.tenants));
        for (uint32_t i = 0; i < N_POOLS; i++)
                fill_pool(&figures.pools[i], &figures.stats[i], i);
        figures.clients[0] = (struct client_row){.state = LISTED_READY, .clients = 1};
        figures.clients[1] = (struct client_row){.state = LISTED_ORPHANED, .clients = 1};
        figures.clients[2] = (struct client_row){.state = LISTED_OTHERS, .clients = 40};
        for (uint32_t i = 0; i < n_tenants; i++)
                figures.tenants[i] = (struct tenant_row){
                        .uid = 1000 + i, .tenants = 1, .reserved = 100 + i, .waiting = 1};
        *ret_figures = figures;
}

void figures_make_all(struct metrics_figures *ret_figures)
{
        figures_make(ret_figures, 2);
        ret_figures->tenants[1].pool = N_POOLS - 1;
}

void figures_make_hostile(struct metrics_figures *ret_figures)
{
        static const char name[] = "a\"} 1\n# EOF\nevil{x=\"\\\x01\xff_\xc3\x7f";
        struct metrics_figures figures;

        figures_make(&figures, 6);
        memcpy(figures.pools[0].name, name, sizeof(name));
        memset(figures.pools[1].name, '\\', sizeof(figures.pools[1].name) - 1);
        figures.pools[1].kind = 77;
        figures.clients[0].state = 99;
        figures.clients[1].clients = UINT32_MAX;
        memset(&figures.stats[2].max, 0xfe,
               sizeof(figures.stats[2]) - offsetof(struct stats_row, max));
        figures.stats[0].device = 77;
        /* Four whose labels come to the same, one without an end, one of no pool. */
        for (unsigned i = 0; i < 4; i++) {
                figures.tenants[i].uid = 5;
                figures.tenants[i].reserved = UINT64_MAX / 2;
                figures.tenants[i].container[0] = 'c';
                figures.tenants[i].container[1] = (char)(i + 1);
        }
        memset(figures.tenants[4].container, '"', sizeof(figures.tenants[4].container));
        figures.tenants[5].pool = 1234;
        *ret_figures = figures;
}
