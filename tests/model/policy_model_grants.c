/* SPDX-License-Identifier: Apache-2.0 */
/* Whom a block is granted to, and which one. */
#include "tests/model/policy_model_actions.h"

#include <stdlib.h>

#include "daemon/policy/scheduling/revoke_idle.h"

bool model_maps(const struct model_client *client, const struct model_block *block)
{
        const struct model_lease *lease;

        TAILQ_FOREACH (lease, &block->leases, block_link) {
                if (lease->client == client)
                        return true;
        }
        return false;
}

static bool is_better_size(const struct model_request *request, const struct model_block *a,
                           const struct model_block *b)
{
        uint64_t n_bytes = request->ask.n_bytes;

        if ((a->n_bytes < n_bytes) != (b->n_bytes < n_bytes))
                return b->n_bytes < n_bytes;
        return a->n_bytes != b->n_bytes && (a->n_bytes < b->n_bytes) == (a->n_bytes >= n_bytes);
}

/* One that is large enough and mapped, if that is asked for. The smallest that is large enough, else the
 * largest; of these one that the client maps; of these the one cached last. */
static bool is_better(const struct model_request *request, const struct model_block *a,
                      const struct model_block *b)
{
        const struct model_client *client = request->client;
        uint64_t n_bytes = request->ask.n_bytes;

        if ((a->n_bytes < n_bytes) != (b->n_bytes < n_bytes))
                return b->n_bytes < n_bytes;
        if (request->ask.known_will_do && a->n_bytes >= n_bytes &&
            model_maps(client, a) != model_maps(client, b))
                return model_maps(client, a);
        if (a->n_bytes != b->n_bytes)
                return (a->n_bytes < b->n_bytes) == (a->n_bytes >= n_bytes);
        if (model_maps(client, a) != model_maps(client, b))
                return model_maps(client, a);
        return a->cached_at > b->cached_at;
}

/* For a limit's sake it may have been revoked for another client. */
static bool has_limits(const struct model *model)
{
        return policy_limits(model->policy) != NULL;
}

static void check_choice(const struct model *model, const struct model_request *request,
                         const struct model_block *chosen)
{
        bool is_held = model_held(model, request);
        const struct model_block *block;

        /* Before it was revoked it was charged: others may have been beyond the limit then. */
        if (chosen->was_idle && has_limits(model))
                return;
        LIST_FOREACH (block, &model->blocks, link) {
                /* When it was revoked is not known: perhaps after the choice. */
                if (block == chosen || block->state != MODEL_CACHED || block->was_idle ||
                    !model_serves(block, request))
                        continue;
                /* Larger ones may be beyond a limit that the chosen one is not. */
                if (model_limit_by(model, request->client, block))
                        continue;
                /* Who is held by a limit has what is its own already. */
                if (is_held && model_charge_owner(block) != request->client)
                        continue;
                must(model, !is_better(request, block, chosen));
        }
}

static void check_lease(const struct model *model, const struct model_client *client,
                        const struct lease *lease)
{
        const struct model_lease *other;

        must(model, lease_id(lease) != 0 && lease_id(lease) >> 56 == 0);
        must(model, lease_slot(lease) < client->n_slots);
        LIST_FOREACH (other, &client->leases, client_link)
                must(model, other->slot != lease_slot(lease) && other->id != lease_id(lease));
}

void model_add_lease(struct model *model, struct model_client *client, struct model_block *block,
                     const struct lease *name)
{
        struct model_lease *lease = calloc(1, sizeof(*lease));

        must(model, lease);
        if (lease_id(name) > model->last_lease_id)
                model->last_lease_id = lease_id(name);
        check_lease(model, client, name);
        *lease = (struct model_lease){.id = lease_id(name),
                                      .slot = lease_slot(name),
                                      .busy = true,
                                      .client = client,
                                      .block = block};
        block->idle_since_ns = block->may_be_idle_since_ns = 0;
        TAILQ_INSERT_HEAD(&block->leases, lease, block_link);
        LIST_INSERT_HEAD(&client->leases, lease, client_link);
}

/* What was taken from a client is not taken back at once, unless it costs nothing or there is no time. */
static void check_taken(struct model *model, const struct model_request *request,
                        struct model_block *block, bool known)
{
        bool is_taken_back = block->taken_from == request->client &&
                             model->now_ns < block->taken_ns + REVOKE_IDLE_BACK_NS;

        if (is_taken_back && !known && model->kind == MODEL_EXACT && !has_limits(model))
                must(model, request->ask.deadline_ns <= model->now_ns);
        model->n_taken_back += block->taken_from == request->client;
        block->taken_from = block->lost_by;
        block->taken_ns = model->now_ns;
}

/* An unowned one goes to the one that would have one made: nothing of its own tenant's would do, and it is the
 * smallest that is large enough, else the largest. Of others no such block is taken as is asked for. */
static void take_unowned(struct model *model, const struct model_request *request,
                         struct model_block *chosen)
{
        const struct model_block *block;

        must(model, model_would_serve(chosen, request));
        must(model, chosen->state == MODEL_CACHED && !model_is_mapped(chosen));
        must(model, !request->ask.only_known);
        must(model, !chosen->properties);
        if (model->kind == MODEL_EXACT) {
                must(model, !model_held(model, request));
                model_check_turn(model, request);
                LIST_FOREACH (block, &model->blocks, link) {
                        if (block == chosen || block->state != MODEL_CACHED || block->was_idle)
                                continue;
                        must(model, !model_serves(block, request) ||
                                            model_limit_by(model, request->client, block));
                        must(model, !model_would_serve(block, request) ||
                                            model_limit_by(model, request->client, block) ||
                                            !is_better_size(request, block, chosen));
                }
        }
        model_give(model, request, chosen->n_bytes);
        chosen->uid = request->client->uid;
        model->n_from_unowned++;
}

void model_take_grant(struct model *model, const struct action *action)
{
        struct model_request *request = model_request_of(model, action);
        struct model_block *block = model_block_of(model, action);
        bool was_unowned = block->uid == MODEL_UNOWNED;

        must(model, !model->draining);
        if (was_unowned)
                take_unowned(model, request, block);
        must(model, block->uid == request->client->uid);
        must(model, model_serves(block, request));
        must(model, !request->failure && !block->unusable);
        must(model, model->kind == MODEL_LAZY || !request->cancelled);
        must(model, block_backing(action->block) == block);
        must(model,
             action->known == (request->ask.known_will_do && model_maps(request->client, block)));
        model->n_known += action->known;
        if (block->state == MODEL_CACHED && block->was_idle)
                check_taken(model, request, block, action->known);
        if (block->state == MODEL_CACHED) {
                must(model, !request->block);
                if (model->kind == MODEL_EXACT) {
                        if (!was_unowned)
                                check_choice(model, request, block);
                        must(model, !model_limit_by(model, request->client, block));
                }
                model->pools[block->pool].n_grants_from_cache++;
        } else {
                must(model, block->state == MODEL_MADE && block->request == request);
        }
        block->state = MODEL_HELD;
        block->n_grants++;
        block->request = NULL;
        request->block = NULL;
        model_add_lease(model, request->client, block, action->lease);
        TAILQ_FIRST(&block->leases)->keeps_mapped = request->ask.keeps_mapped &&
                                                    block->pool == MODEL_PINNED_POOL;
        model_forget_request(model, request);
        model->n_grants++;
}
