/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/scheduling/pressure.h"

#include "daemon/policy/accounting/charge.h"
#include "daemon/policy/state/action_queue.h"

static bool is_told(const struct request *request, const struct charge_sum *sum, uint64_t now_ns)
{
        const struct client *client = sum->client;
        bool is_too_soon = sum->told_ns && now_ns < sum->told_ns + PRESSURE_NS;

        return client != request->client && client->hears_pressure && !client->is_ending &&
               !is_too_soon && !action_is_queued(&sum->pressure);
}

void pressure_tell(struct request *request, enum limit_scope scope, uint64_t now_ns)
{
        const struct pool *pool = request->pool;
        bool is_tenant = scope == LIMIT_OF_TENANT;
        const struct ranking *ranking = is_tenant ? &request->client->tenant->holdings[pool->id]
                                                             .by_charge
                                                  : &pool->by_charge;
        struct ranked *ranked = ranking_first(ranking);
        unsigned n_told = 0;

        if (request->n_told >= PRESSURE_CLIENTS)
                return;
        for (unsigned i = 0; ranked && i < PRESSURE_LOOKS && n_told < PRESSURE_A_TIME; i++) {
                struct charge_sum *sum = charge_sum_of(ranked, is_tenant ? CHARGE_OF_TENANT
                                                                         : CHARGE_OF_POOL);

                if (is_told(request, sum, now_ns)) {
                        sum->told_ns = now_ns;
                        action_push(&pool->policy->actions, &sum->pressure, ACTION_PRESSURE);
                        n_told++;
                }
                ranked = ranking_next(ranking, ranked);
        }
        /* Few: no other one is left. */
        request->n_told += n_told == PRESSURE_A_TIME ? n_told : PRESSURE_CLIENTS;
}
