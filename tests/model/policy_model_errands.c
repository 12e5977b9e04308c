/* What is done for nobody who waits: blocks are let go because they are to go. */
#include <stdlib.h>

#include "base/err.h"
#include "tests/model/policy_model.h"

void model_free_all(struct model *model, struct model_client *client, enum policy_scope scope,
                    uint32_t pool)
{
        struct model_free_all *free_all = calloc(1, sizeof(*free_all));
        struct model_block *block;

        must(model, free_all && model->settled);
        free_all->client = client;
        free_all->serial = ++model->last_serial;
        LIST_FOREACH (block, &model->blocks, link) {
                bool is_idle = block->state == MODEL_HELD &&
                               model_is_idle(TAILQ_FIRST(&block->leases));

                if (block->state != MODEL_CACHED && !is_idle)
                        continue;
                if (scope == SCOPE_TENANT && block->uid != client->uid)
                        continue;
                if (pool != POLICY_ALL_POOLS && pool != block->pool)
                        continue;
                /* One that is idle is noted as revoked when orders are taken. */
                if (!is_idle)
                        model_let_go(model, block);
                block->free_all = free_all;
                free_all->n_bytes += block->n_bytes;
                free_all->n_blocks++;
        }
        free_all->n_unreleased = free_all->n_blocks;
        LIST_INSERT_HEAD(&model->free_alls, free_all, link);
        must(model,
             policy_free_all(model->policy, client->client, free_all->serial, scope, pool) == 0);
        model_happened(model);
        model->unserved = true;
}

void model_shut_down(struct model *model)
{
        struct model_block *block;

        model->closing = true;
        LIST_FOREACH (block, &model->blocks, link) {
                if (block->state == MODEL_CACHED)
                        model_let_go(model, block);
        }
        policy_shut_down(model->policy);
        model_happened(model);
}
