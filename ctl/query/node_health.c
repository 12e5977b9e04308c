/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/query/node_health.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

void node_health_deinit(struct node_health *health)
{
        node_state_deinit(&health->node);
        event_rows_deinit(&health->events);
        findings_deinit(&health->findings);
}

static void judge(struct node_health *health, uint64_t lingering_ms)
{
        const struct pool_stats *pool_stats = &health->node.pool_stats;

        for (uint32_t i = 0; i < pool_stats->n; i++)
                health_check_pool(&pool_stats->pools[i], &pool_stats->stats[i], &health->findings);
        health_check_blocks((const void *)health->node.blocks.rows, health->node.blocks.n_rows,
                            lingering_ms, &health->findings);
        health_check_events(health->events.rows, health->events.n, &health->findings);
}

int node_health_fetch(struct link *link, uint64_t lingering_ms, struct node_health *ret_health)
{
        const uint32_t kinds = EVENT_ROWS_BIT(CANARY) | EVENT_ROWS_BIT(STARTED) |
                               EVENT_ROWS_BIT(STOPPING);
        int r = node_state_fetch(link, PROTO_ALL_POOLS, &ret_health->node);

        if (!r)
                r = event_rows_fetch(link, 0, kinds, &ret_health->events);
        if (r)
                return r;
        judge(ret_health, lingering_ms);
        return ret_health->findings.is_short_of_memory ? -ENOMEM : 0;
}

const char *finding_level_name(enum finding_level level)
{
        return level == FINDING_UNHEALTHY ? "unhealthy" : "note";
}

static const char *pool_name(const struct pool_stats *pool_stats, uint32_t pool)
{
        for (uint32_t i = 0; i < pool_stats->n; i++) {
                if (pool_stats->pools[i].id == pool)
                        return pool_stats->pools[i].name;
        }
        return "unknown";
}

void node_health_print(const struct node_health *health, const struct finding *finding)
{
        (void)printf("%s: ", finding_level_name(finding->level));
        if (finding->pool != LISTING_NOBODY)
                (void)printf("pool %" PRIu32 " (%s): ", finding->pool,
                             pool_name(&health->node.pool_stats, finding->pool));
        (void)puts(finding->text);
}
