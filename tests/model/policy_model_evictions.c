/* SPDX-License-Identifier: Apache-2.0 */
/* What was released, and for whose sake, once no action is left. */
#include "tests/model/policy_model_compare.h"

/* Room made beside a new block passes no limit: what its mapper had no room for, once charged with it, was
 * bypassed. With leases revoked, charges may have fallen since. */
static bool was_bypassed(const struct model *model, const struct model_block *block)
{
        if (!model->pools[block->pool].had_action || block->pool == MODEL_PINNED_POOL ||
            model_mapped(block) != MODEL_MAPPED)
                return false;
        return model->revoked ||
               model_limit(model, TAILQ_FIRST(&block->leases)->client, block->pool, block->n_bytes);
}

/* What was released was the oldest of its tenant and kind. Those that were revoked for one request are as
 * old as each other. */
static void check_oldest_went(struct model *model, const struct model_block *evicted)
{
        const struct model_block *block;

        LIST_FOREACH (block, &model->blocks, link) {
                if (block->state != MODEL_CACHED || block->pool != evicted->pool ||
                    block->uid != evicted->uid || model_mapped(block) != model_mapped(evicted))
                        continue;
                must(model, block->cached_at >= evicted->cached_at || was_bypassed(model, block));
        }
}

/* What its tenant has cached now, and with those that were evicted after `evicted`, or with it: of a kind the oldest
 * went first. */
static uint64_t cached_now(const struct model *model, const struct model_block *of,
                           const struct model_block *evicted)
{
        const struct model_block *block;
        uint64_t n_bytes = 0;

        LIST_FOREACH (block, &model->blocks, link) {
                bool is_later = evicted && block->evicted &&
                                (model_mapped(block) != model_mapped(evicted) ||
                                 block->cached_at >= evicted->cached_at);

                if (block->pool == of->pool && block->uid == of->uid &&
                    (block->state == MODEL_CACHED || block->state == MODEL_CREATING_FOR_CACHE ||
                     is_later))
                        n_bytes += block->n_bytes;
        }
        return n_bytes;
}

static unsigned power_of_two(uint64_t n_bytes)
{
        return 63 - (unsigned)__builtin_clzll(n_bytes);
}

/* With one request in the queue it is known whom the room is for: its own tenant's blocks went
 * before those of others, of others' those of the tenant with most, by powers of two, and none too many. */
static void check_order_of_tenants(struct model *model, const struct model_block *evicted,
                                   const struct model_request *asker)
{
        const struct model_block *block;

        LIST_FOREACH (block, &model->blocks, link) {
                if (block->state != MODEL_CACHED || block->pool != evicted->pool ||
                    model_mapped(block) != model_mapped(evicted))
                        continue;
                if (evicted->uid == asker->client->uid)
                        continue;
                must(model, block->uid != asker->client->uid);
                must(model, power_of_two(cached_now(model, block, NULL)) <=
                                    power_of_two(cached_now(model, evicted, evicted)));
        }
}

static void check_no_waste(struct model *model, const struct model_block *last,
                           const struct model_request *asker)
{
        uint64_t n_bytes = model->pools[last->pool].max_bytes + model_incoming(model, last->pool);

        if (!asker->device_full && !model_is_mapped(last))
                must(model, n_bytes < asker->ask.n_bytes + last->n_bytes +
                                              model_reserved(model, last->pool));
}

static const struct model_request *first_in_queue(const struct model *model, uint32_t pool)
{
        const struct model_request *request;

        TAILQ_FOREACH (request, &model->requests, link) {
                if (request->ask.pool == pool && !request->block)
                        return request;
        }
        return NULL;
}

static void check_evictions(struct model *model)
{
        const struct model_block *block;

        LIST_FOREACH (block, &model->blocks, link) {
                const struct model_request *asker = first_in_queue(model, block->pool);

                if (!block->evicted)
                        continue;
                if (model->kind == MODEL_LAZY || block->was_idle)
                        continue;
                check_oldest_went(model, block);
                if (model->pools[block->pool].was_trimmed || model->pools[block->pool].was_limited)
                        continue;
                if (model->pools[block->pool].had_action && block->pool != MODEL_PINNED_POOL)
                        continue;
                /* What was revoked for another request may have served the one that it was for. */
                if (model->revoked)
                        continue;
                must(model, asker);
                if (model_n_queued(model, block->pool) > 1)
                        continue;
                check_order_of_tenants(model, block, asker);
                if (block == model->pools[block->pool].evicted_last)
                        check_no_waste(model, block, asker);
        }
}

void model_check_evictions(struct model *model)
{
        struct model_block *block;

        check_evictions(model);
        LIST_FOREACH (block, &model->blocks, link)
                block->evicted = false;
}
