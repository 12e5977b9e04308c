/* SPDX-License-Identifier: Apache-2.0 */
/* Objects of the model, and the questions about them. */
#include "tests/model/policy_model.h"

#include <stdlib.h>

#include "base/err.h"

void model_init(struct model *model, enum model_kind kind)
{
        static const uint64_t sizes[MODEL_N_POOLS] = {96 * MIB, 40 * MIB, 257 * MIB};

        *model = (struct model){
                .kind = kind, .now_ns = 1000, .settled = true, .max_blocks = UINT64_MAX};
        LIST_INIT(&model->clients);
        LIST_INIT(&model->blocks);
        TAILQ_INIT(&model->requests);
        LIST_INIT(&model->release_alls);
        LIST_INIT(&model->shares);
        ck_assert_int_eq(policy_new(&model->policy), 0);
        for (uint32_t i = 0; i < MODEL_N_POOLS; i++) {
                struct policy_pool pool = {
                        .kind = i == MODEL_PINNED_POOL ? POLICY_PINNED : POLICY_DEVICE,
                        .max_bytes = sizes[i],
                };
                uint32_t id;

                ck_assert_int_eq(policy_add_pool(model->policy, &pool, &id), 0);
                model->pools[i].max_bytes = sizes[i];
                model->pools[i].n_device_bytes = sizes[i];
                model->pools[i].max_since = sizes[i];
                model->pools[i].return_after_ns = POLICY_KEEP_FOR_EVER;
        }
        model_clear_limits(model);
}

void model_deinit(struct model *model)
{
        must(model, LIST_EMPTY(&model->clients) && LIST_EMPTY(&model->blocks));
        must(model, TAILQ_EMPTY(&model->requests) && LIST_EMPTY(&model->release_alls));
        must(model, LIST_EMPTY(&model->shares));
        model->policy = policy_free(model->policy);
}

bool model_is_mapped(const struct model_block *block)
{
        return !TAILQ_EMPTY(&block->leases);
}

enum model_mapped model_mapped(const struct model_block *block)
{
        const struct model_lease *lease;

        TAILQ_FOREACH (lease, &block->leases, block_link) {
                if (lease->keeps_mapped)
                        return MODEL_KEPT;
        }
        return model_is_mapped(block) ? MODEL_MAPPED : MODEL_UNMAPPED;
}

static bool is_large_enough(uint64_t n_bytes, const struct policy_ask *ask)
{
        if (n_bytes < ask->n_bytes)
                return ask->n_least_bytes && n_bytes >= ask->n_least_bytes;
        return (n_bytes - ask->n_bytes) * 8 <= ask->n_bytes;
}

static bool fits(const struct model_block *block, const struct model_request *request)
{
        return block->pool == request->ask.pool && block->properties == request->ask.properties &&
               is_large_enough(block->n_bytes, &request->ask);
}

bool model_serves(const struct model_block *block, const struct model_request *request)
{
        return block->uid == request->client->uid && fits(block, request);
}

bool model_would_serve(const struct model_block *block, const struct model_request *request)
{
        return block->uid == MODEL_UNOWNED && fits(block, request);
}

bool model_speaks(const struct model_client *client)
{
        return !client->eof && !client->dead;
}

uint64_t model_reserved(const struct model *model, uint32_t pool)
{
        const struct model_block *block;
        uint64_t n_bytes = 0;

        LIST_FOREACH (block, &model->blocks, link)
                n_bytes += block->pool == pool ? block->n_bytes : 0;
        return n_bytes;
}

uint64_t model_room(const struct model *model, uint32_t pool)
{
        uint64_t n_bytes = model_reserved(model, pool);

        return n_bytes < model->pools[pool].max_bytes ? model->pools[pool].max_bytes - n_bytes : 0;
}

uint64_t model_evictable(const struct model *model, uint32_t pool)
{
        const struct model_block *block;
        uint64_t n_bytes = 0;

        LIST_FOREACH (block, &model->blocks, link) {
                if (block->pool == pool && block->state == MODEL_CACHED && !model_is_mapped(block))
                        n_bytes += block->n_bytes;
        }
        return n_bytes;
}

uint64_t model_incoming(const struct model *model, uint32_t pool)
{
        const struct model_block *block;
        uint64_t n_bytes = 0;

        LIST_FOREACH (block, &model->blocks, link) {
                if (block->pool != pool || model_is_mapped(block) || block->unreleasable)
                        continue;
                if (block->state == MODEL_RELEASING || block->state == MODEL_CREATING_FOR_CACHE)
                        n_bytes += block->n_bytes;
        }
        return n_bytes;
}

unsigned model_n_unanswered(const struct model *model, const struct model_client *client)
{
        const struct model_request *request;
        unsigned n = 0;

        TAILQ_FOREACH (request, &model->requests, link)
                n += request->client == client;
        return n;
}

unsigned model_n_queued(const struct model *model, uint32_t pool)
{
        const struct model_request *request;
        unsigned n = 0;

        TAILQ_FOREACH (request, &model->requests, link)
                n += request->ask.pool == pool && !request->block;
        return n;
}

void model_give(struct model *model, const struct model_request *request, uint64_t n_bytes)
{
        struct model_pool *pool = &model->pools[request->ask.pool];
        uint64_t *n_given_bytes = &pool->n_given_bytes[request->client->uid];

        if (pool->reached < *n_given_bytes)
                pool->reached = *n_given_bytes;
        *n_given_bytes += n_bytes;
}

/* Those who come after it stand where it stood, or with the first of those who wait. */
static void end_turn(struct model *model, uint32_t pool_id, uint32_t uid)
{
        struct model_pool *pool = &model->pools[pool_id];
        uint64_t n_bytes = pool->n_given_bytes[uid];
        const struct model_request *request;

        TAILQ_FOREACH (request, &model->requests, link) {
                uint64_t n_given_bytes = pool->n_given_bytes[request->client->uid];

                if (request->ask.pool == pool_id && !request->outcome && n_given_bytes < n_bytes)
                        n_bytes = n_given_bytes;
        }
        if (pool->reached < n_bytes)
                pool->reached = n_bytes;
        pool->n_given_bytes[uid] = 0;
}

void model_look_for_end(struct model *model, uint32_t uid)
{
        const struct model_client *client;
        const struct model_block *block;

        LIST_FOREACH (client, &model->clients, link) {
                if (client->uid == uid)
                        return;
        }
        LIST_FOREACH (block, &model->blocks, link) {
                if (block->uid == uid)
                        return;
        }
        for (uint32_t i = 0; i < MODEL_N_POOLS; i++)
                end_turn(model, i, uid);
}

void model_release(const struct model *model, struct model_block *block)
{
        block->state = MODEL_RELEASING;
        block->release_ns = model->now_ns;
}

void model_cache(struct model *model, struct model_block *block)
{
        block->request = NULL;
        /* With actions standing the policy knows more: then an action to release it may come. */
        if (block->properties & POLICY_FRESH || block->unusable || model->closing ||
            (model->kind == MODEL_EXACT && model_excess(model, block->pool))) {
                model_release(model, block);
                return;
        }
        block->state = MODEL_CACHED;
        block->cached_at = ++model->n_cachings;
        model_note_cached(model, block);
}

void model_make_for_cache(struct model *model, struct model_request *request)
{
        struct model_block *block = steal_ptr(request->block);

        if (!block)
                return;
        block->request = NULL;
        if (block->state == MODEL_MAKING)
                block->state = MODEL_CREATING_FOR_CACHE;
        else
                model_cache(model, block);
}

void model_forget_block(struct model *model, struct model_block *block)
{
        must(model, !model_is_mapped(block) && !block->release_all);
        if (block->request)
                block->request->block = NULL;
        LIST_REMOVE(block, link);
        model_look_for_end(model, block->uid);
        free(block);
}

void model_forget_request(struct model *model, struct model_request *request)
{
        must(model, !request->block);
        TAILQ_REMOVE(&model->requests, request, link);
        free(request);
}
