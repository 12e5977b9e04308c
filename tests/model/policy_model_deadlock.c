/* SPDX-License-Identifier: Apache-2.0 */
/* Who holds a pool's memory, and whether all of them wait for more. */
#include "daemon/policy/report/stats.h"
#include "daemon/policy/scheduling/deadlock.h"
#include "tests/model/policy_model_actions.h"
#include "tests/model/policy_model_compare.h"

/* What it leases, is having made, has to unmap, or keeps. */
static bool is_holder(const struct model_client *client, uint32_t pool)
{
        return client_charged(client->client, pool) > 0;
}

/* Nothing is being made for it, and it has asked for more. */
static bool is_waiting(const struct model *model, const struct model_client *client, uint32_t pool)
{
        const struct model_request *request;
        bool found = false;

        TAILQ_FOREACH (request, &model->requests, link) {
                if (request->client != client || request->ask.pool != pool)
                        continue;
                if (request->block)
                        return false;
                found = true;
        }
        return found;
}

static bool are_all_waiting(const struct model *model, uint32_t pool)
{
        const struct model_client *client;
        unsigned n = 0;

        LIST_FOREACH (client, &model->clients, link) {
                if (!is_holder(client, pool))
                        continue;
                if (!is_waiting(model, client, pool))
                        return false;
                n++;
        }
        return n > 1;
}

void model_check_deadlock(struct model *model, const struct model_request *request, int outcome)
{
        uint32_t pool = request->ask.pool;

        must(model, outcome == GPUMEM_E_REFUSED);
        must(model, !request->block && !request->ask.only_known && !request->ask.only_cached);
        if (model->kind == MODEL_LAZY)
                return;
        must(model, model->pools[pool].driver_status == DRIVER_SERVES);
        must(model, is_holder(request->client, pool));
        must(model, are_all_waiting(model, pool));
}

/* Something comes back by itself, or a request would be served by what is there. */
static bool is_hope(const struct model *model, uint32_t pool, uint64_t n_least_bytes)
{
        uint64_t n_bytes = model_room(model, pool);
        const struct model_block *block;

        LIST_FOREACH (block, &model->blocks, link) {
                const struct model_lease *lease = TAILQ_FIRST(&block->leases);

                if (block->pool != pool)
                        continue;
                if (block->state == MODEL_CACHED ||
                    (block->state == MODEL_HELD && model_is_idle(lease)))
                        n_bytes += block->n_bytes;
                else if (block->state != MODEL_HELD && !model_is_timed_out(model, block))
                        return true;
        }
        return n_bytes >= n_least_bytes;
}

void model_check_no_deadlock(const struct model *model)
{
        for (uint32_t pool = 0; pool < MODEL_N_POOLS; pool++) {
                uint64_t n_least_bytes = UINT64_MAX;
                const struct model_request *request;

                if (model->pools[pool].driver_status != DRIVER_SERVES ||
                    !are_all_waiting(model, pool))
                        continue;
                TAILQ_FOREACH (request, &model->requests, link) {
                        if (request->ask.pool == pool && is_holder(request->client, pool) &&
                            request->ask.n_bytes < n_least_bytes)
                                n_least_bytes = request->ask.n_bytes;
                }
                must(model,
                     is_hope(model, pool, n_least_bytes) ||
                             policy_next_deadline(model->policy) <= model->now_ns + DEADLOCK_NS);
        }
}
