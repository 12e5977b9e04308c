/* SPDX-License-Identifier: Apache-2.0 */
/* Each action that is taken, against what may be done. */
#include "tests/model/policy_model_actions.h"

#include <stdlib.h>

#include "base/err.h"
#include "daemon/policy/scheduling/backfill.h"
#include "daemon/policy/scheduling/pressure.h"

struct model_client *model_client_of(const struct model *model, const struct action *action)
{
        struct model_client *client;

        LIST_FOREACH (client, &model->clients, link) {
                if (client->client == action->client)
                        return client;
        }
        must(model, !"an action names a client that is gone");
        return NULL;
}

/* A serial alone does not tell a request from one that is refused for having the same serial. */
static bool may_answer(const struct action *action, const struct model_request *request)
{
        if (request->ask.serial != action->serial)
                return false;
        if (!request->predicted)
                return true;
        if (action->kind == ACTION_REFUSE && action->outcome == GPUMEM_E_SHUTTING_DOWN)
                return GPUMEM_E_SHUTTING_DOWN ==
                       (request->outcome ? request->outcome : request->failure);
        return model_is_refused_for_what_it_is(action) ? request->outcome == action->outcome
                                                       : request->outcome == 0;
}

/* The pool's limit may have been lowered since it was asked. */
static bool may_have_become_too_large(const struct action *action,
                                      const struct model_request *request)
{
        return action->kind == ACTION_REFUSE && action->outcome == GPUMEM_E_TOO_LARGE &&
               request->ask.serial == action->serial && !request->outcome;
}

struct model_request *model_request_of(const struct model *model, const struct action *action)
{
        struct model_client *client = model_client_of(model, action);
        struct model_request *request;

        must(model, model_speaks(client));
        TAILQ_FOREACH (request, &model->requests, link) {
                if (request->client == client && may_answer(action, request))
                        break;
        }
        if (!request) {
                TAILQ_FOREACH (request, &model->requests, link) {
                        if (request->client == client && may_have_become_too_large(action, request))
                                break;
                }
        }
        must(model, request);
        must(model, action->pool == request->ask.pool);
        return request;
}

struct model_block *model_block_of(const struct model *model, const struct action *action)
{
        struct model_block *block;

        LIST_FOREACH (block, &model->blocks, link) {
                if (block->block == action->block)
                        break;
        }
        must(model, block);
        must(model, block_id(action->block) == block->id);
        must(model, block_pool(action->block) == block->pool && action->pool == block->pool);
        must(model, block_bytes(action->block) == block->n_bytes);
        must(model, block_properties(action->block) == block->properties);
        return block;
}

/* Waits for the same pool's memory. */
static bool is_queued(const struct model_request *other, const struct model_request *request)
{
        return other->ask.pool == request->ask.pool && !other->block;
}

static bool is_first_of_its_tenant(const struct model *model, const struct model_request *request)
{
        const struct model_request *older;

        TAILQ_FOREACH (older, &model->requests, link) {
                if (older == request)
                        return true;
                if (older->client->uid == request->client->uid && is_queued(older, request))
                        return false;
        }
        return false;
}

/* Whether the other one was looked at before the request for certain: it is an older one of the tenant,
 * or the head of one that was given less. */
static bool was_before(const struct model *model, const struct model_request *other,
                       const struct model_request *request)
{
        const uint64_t *n_given_bytes = model->pools[request->ask.pool].n_given_bytes;

        if (other->client->uid == request->client->uid)
                return other->number < request->number;
        return n_given_bytes[other->client->uid] < n_given_bytes[request->client->uid] &&
               is_first_of_its_tenant(model, other);
}

/* A tenant's requests hold up others for a time before they do so no more for a while: a round. Only that one of them
 * is bypassed in a rest is seen. So it is kept between which times the rest may have begun: this one may be of the
 * same rest as the last, or of one of a later round. */
static void check_rest(struct model *model, const struct model_request *bypassed)
{
        struct model_rest *rest = &model->pools[bypassed->ask.pool].rests[bypassed->client->uid];
        const uint64_t rest_ns = BACKFILL_ROUND_NS - BACKFILL_HOLD_NS;
        uint64_t present_ns = model->now_ns < rest_ns ? 0 : model->now_ns - rest_ns + 1;
        uint64_t next_ns = rest->latest_ns ? rest->earliest_ns + BACKFILL_ROUND_NS
                                           : rest->asked_ns + BACKFILL_HOLD_NS;
        bool may_be_same = rest->latest_ns && rest->latest_ns >= present_ns;

        must(model, may_be_same || model->now_ns >= next_ns);
        if (!may_be_same)
                rest->earliest_ns = next_ns;
        if (rest->earliest_ns < present_ns)
                rest->earliest_ns = present_ns;
        if (model->now_ns >= next_ns)
                rest->latest_ns = model->now_ns;
}

/* Room goes to requests in their turn; what does not fit may be bypassed by smaller ones, some times, and by
 * all while its tenant holds up no other. */
void model_check_turn(struct model *model, const struct model_request *request)
{
        struct model_request *other;

        /* Where the driver makes nothing, no request waits for room. */
        if (model->revoked || model->pools[request->ask.pool].driver_status != DRIVER_SERVES)
                return;
        TAILQ_FOREACH (other, &model->requests, link) {
                if (other == request || !is_queued(other, request) || model_held(model, other) ||
                    !was_before(model, other, request))
                        continue;
                if (++other->n_bypassed > BACKFILL_MAX ||
                    request->ask.n_bytes >= other->ask.n_bytes)
                        check_rest(model, other);
                model->n_bypassed++;
        }
}

static struct model_block *begin_block(struct model *model, const struct action *action,
                                       struct model_block *block)
{
        must(model, model->pools[block->pool].driver_status == DRIVER_SERVES);
        must(model, !model->draining);
        must(model, block_id(action->block) > model->last_block_id);
        must(model, !block_backing(action->block));
        block->block = action->block;
        block->id = block_id(action->block);
        model->last_block_id = block->id;
        model->pools[block->pool].n_jobs++;
        return model_block_of(model, action);
}

/* Without a request: the one that was asked for first. */
static struct model_block *take_prewarm(struct model *model, const struct action *action)
{
        struct model_block *block, *first = NULL;

        LIST_FOREACH (block, &model->blocks, link)
                first = block->block ? first : block;
        must(model, first && block_is_unowned(action->block));
        return begin_block(model, action, first);
}

static struct model_block *take_create(struct model *model, const struct action *action)
{
        struct model_request *request = model_request_of(model, action);
        struct model_block *block = calloc(1, sizeof(*block));

        must(model, block && !request->block && !request->cancelled && !request->failure);
        must(model, !request->ask.only_known && !request->ask.only_cached);
        if (model->kind == MODEL_EXACT) {
                model_check_turn(model, request);
                must(model,
                     !model_limit(model, request->client, request->ask.pool, request->ask.n_bytes));
                must(model, model_room(model, request->ask.pool) >= request->ask.n_bytes);
        }
        *block = (struct model_block){
                .pool = request->ask.pool,
                .uid = request->client->uid,
                .n_bytes = request->ask.n_bytes,
                .properties = request->ask.properties,
                .state = MODEL_MAKING,
                .request = request,
        };
        TAILQ_INIT(&block->leases);
        LIST_INSERT_HEAD(&model->blocks, block, link);
        model->pools[block->pool].had_action = true;
        model_give(model, request, request->ask.n_bytes);
        request->block = block;
        request->n_backs = model->pools[block->pool].n_backs;
        return begin_block(model, action, block);
}

static struct model_block *take_release(struct model *model, const struct action *action)
{
        struct model_block *block = model_block_of(model, action);

        must(model, !action->client && block_backing(action->block) == block);
        must(model, !block->release_given);
        if (model->errand)
                model_check_errand(model, block);
        if (block->state == MODEL_CACHED) {
                model_release(model, block);
                block->evicted = !model->errand;
                if (model->kind == MODEL_EXACT && !model->errand)
                        model->pools[block->pool].evicted_last = block;
        }
        must(model, block->state == MODEL_RELEASING);
        block->release_given = true;
        model->pools[block->pool].n_jobs++;
        return block;
}

static void take_freed(struct model *model, const struct action *action)
{
        struct model_client *client = model_client_of(model, action);
        struct model_release_all *release_all;

        LIST_FOREACH (release_all, &model->release_alls, link) {
                if (release_all->client == client && release_all->serial == action->serial)
                        break;
        }
        must(model, release_all);
        must(model, release_all->n_unreleased == 0);
        must(model, action->n_bytes == release_all->n_bytes);
        must(model, action->n_blocks == release_all->n_blocks);
        LIST_REMOVE(release_all, link);
        free(release_all);
}

static void take_notice(struct model *model, const struct action *action)
{
        struct model_client *client = model_client_of(model, action);
        struct model_block *block = model_block_of(model, action);
        struct model_lease *lease;

        must(model, model_speaks(client));
        LIST_FOREACH (lease, &client->leases, client_link) {
                if (lease->id == lease_id(action->lease))
                        break;
        }
        must(model, lease && lease->block == block && lease->revoked && !lease->recalled);
        must(model, block->state == MODEL_RELEASING || block->state == MODEL_LINGERING);
        lease->recalled = true;
        model->n_recalled++;
}

/* Another client lacks memory there, and this one was not told a moment ago. Which clients hold most is not modelled. */
static void take_pressure(struct model *model, const struct action *action)
{
        struct model_client *client = model_client_of(model, action);
        const struct model_request *request;
        bool is_lacking = false;

        TAILQ_FOREACH (request, &model->requests, link) {
                is_lacking = is_lacking ||
                             (request->ask.pool == action->pool && request->client != client);
        }
        must(model, model_speaks(client) && client->hears_pressure);
        must(model, model->kind == MODEL_LAZY || is_lacking);
        must(model, !client->told_ns[action->pool] || model->kind == MODEL_LAZY ||
                            model->now_ns >= client->told_ns[action->pool] + PRESSURE_NS);
        client->told_ns[action->pool] = model->now_ns;
        model->n_told_of_pressure++;
}

enum action_kind model_take(struct model *model, struct model_block **ret_block)
{
        struct action action = policy_next_action(model->policy);

        model_note_revoked(model);
        if (model->errand)
                must(model, action.kind == ACTION_RELEASE || action.kind == ACTION_FREED ||
                                    action.kind == ACTION_NOTICE || action.kind == ACTION_NONE);
        switch (action.kind) {
        case ACTION_CREATE:
                *ret_block = action.client ? take_create(model, &action)
                                           : take_prewarm(model, &action);
                break;
        case ACTION_RELEASE:
                *ret_block = take_release(model, &action);
                break;
        case ACTION_GRANT:
                model_take_grant(model, &action);
                break;
        case ACTION_REFUSE:
                model_take_refusal(model, &action);
                break;
        case ACTION_FREED:
                take_freed(model, &action);
                break;
        case ACTION_NOTICE:
                take_notice(model, &action);
                break;
        case ACTION_MARK:
                /* Whom and when is room's choice: the model knows who can be asked. */
                must(model, model_speaks(model_client_of(model, &action)));
                break;
        case ACTION_PRESSURE:
                take_pressure(model, &action);
                break;
        case ACTION_NONE:
                model->settled = true;
                break;
        }
        return action.kind;
}
