/* SPDX-License-Identifier: Apache-2.0 */
/* What clients do, and what it must lead to. */
#include <stdlib.h>

#include "base/err.h"
#include "tests/model/policy_model.h"

void model_happened(struct model *model)
{
        model->settled = false;
        model->errand = MODEL_NO_ERRAND;
}

void model_happened_and_served(struct model *model)
{
        model_happened(model);
        model->unserved = model->said = false;
}

struct model_client *model_join(struct model *model, uint32_t uid, uint32_t n_slots,
                                enum model_board board)
{
        struct model_client *client = calloc(1, sizeof(*client));

        must(model, client);
        client->uid = uid;
        client->n_slots = n_slots;
        LIST_INIT(&client->leases);
        if (board == MODEL_WITH_WORDS) {
                client->words = calloc(n_slots, sizeof(*client->words));
                client->said = calloc(n_slots, sizeof(*client->said));
                must(model, client->words && client->said);
        }
        must(model, policy_add_client(model->policy, &(struct tenant_key){.uid = uid},
                                      &(struct tenant_key){.uid = uid}, n_slots, client->words,
                                      client, &client->client) == 0);
        must(model, client_owner(client->client) == client);
        client->hears_pressure = ++model->n_joined % 2;
        if (client->hears_pressure)
                client_hear_pressure(client->client);
        LIST_INSERT_HEAD(&model->clients, client, link);
        return client;
}

void model_freed(struct model_block *block)
{
        if (block->release_all)
                block->release_all->n_unreleased--;
        block->release_all = NULL;
}

void model_not_freed(struct model_block *block)
{
        if (!block->release_all)
                return;
        block->release_all->n_bytes -= block->n_bytes;
        block->release_all->n_blocks--;
        model_freed(block);
}

static void end_mapping(struct model *model, struct model_lease *lease)
{
        struct model_block *block = lease->block;

        TAILQ_REMOVE(&block->leases, lease, block_link);
        LIST_REMOVE(lease, client_link);
        free(lease);
        if (block->state == MODEL_LINGERING && !model_is_mapped(block)) {
                model->pools[block->pool].n_backs++;
                model_freed(block);
                model_forget_block(model, block);
        }
}

/* Of those that are left, the one granted first. */
static struct model_lease *next_busy(const struct model_client *client)
{
        struct model_lease *lease, *found = NULL;

        LIST_FOREACH (lease, &client->leases, client_link) {
                if (lease->busy && (!found || lease->id < found->id))
                        found = lease;
        }
        return found;
}

static void drop_leases(struct model *model, struct model_client *client)
{
        struct model_lease *lease;

        while ((lease = next_busy(client))) {
                model_end_use(model, lease);
                lease->revoked = lease->idle_at_end;
                if (lease->idle_at_end)
                        model_cache(model, lease->block);
                else if (!model_oldest_user(lease->block))
                        model_release(model, lease->block);
        }
}

/* One that was prewarmed may have been granted to the client, which is not told any more: then it is its
 * tenant's for life, and no action says so. */
static void note_owners(struct model *model)
{
        struct model_block *block;

        LIST_FOREACH (block, &model->blocks, link) {
                if (block->uid == MODEL_UNOWNED && block->block && !block_is_unowned(block->block))
                        block->uid = block->block->holding->tenant->key.uid;
        }
}

static void drop(struct model *model, struct model_client *client)
{
        struct model_request *request, *next_request;
        struct model_release_all *release_all, *next_release_all;
        struct model_block *block;

        for (request = TAILQ_FIRST(&model->requests); request; request = next_request) {
                next_request = TAILQ_NEXT(request, link);
                if (request->client != client)
                        continue;
                model_make_for_cache(model, request);
                model_forget_request(model, request);
        }
        for (release_all = LIST_FIRST(&model->release_alls); release_all;
             release_all = next_release_all) {
                next_release_all = LIST_NEXT(release_all, link);
                if (release_all->client != client)
                        continue;
                LIST_FOREACH (block, &model->blocks, link)
                        block->release_all = block->release_all == release_all ? NULL
                                                                               : block->release_all;
                LIST_REMOVE(release_all, link);
                free(release_all);
        }
        drop_leases(model, client);
}

static void take_sign(struct model *model, struct model_client *client, bool is_last, bool is_gone)
{
        struct model_block *block;

        must(model, is_gone == is_last);
        model_happened(model);
        if (!is_last) {
                drop(model, client);
                if (model->kind == MODEL_LAZY)
                        note_owners(model);
                return;
        }
        LIST_FOREACH (block, &model->blocks, link) {
                block->lost_by = block->lost_by == client ? NULL : block->lost_by;
                block->taken_from = block->taken_from == client ? NULL : block->taken_from;
        }
        while (!LIST_EMPTY(&client->leases))
                end_mapping(model, LIST_FIRST(&client->leases));
        LIST_REMOVE(client, link);
        model_look_for_end(model, client->uid);
        free(client->words);
        free(client->said);
        free(client);
}

void model_eof(struct model *model, struct model_client *client)
{
        bool is_gone;

        model_note_idle(client);
        is_gone = policy_client_eof(model->policy, client->client, model->now_ns);
        client->eof = true;
        take_sign(model, client, client->dead, is_gone);
}

void model_dead(struct model *model, struct model_client *client)
{
        bool is_gone;

        model_note_idle(client);
        is_gone = policy_client_dead(model->policy, client->client, model->now_ns);
        client->dead = true;
        take_sign(model, client, client->eof, is_gone);
}

unsigned model_n_taken_slots(const struct model *model, const struct model_client *client)
{
        unsigned n = model_n_unanswered(model, client);
        const struct model_lease *lease;

        LIST_FOREACH (lease, &client->leases, client_link)
                n++;
        return n;
}

static bool is_duplicate(const struct model *model, const struct model_client *client,
                         uint32_t serial)
{
        const struct model_request *request;

        TAILQ_FOREACH (request, &model->requests, link) {
                if (request->client == client && request->ask.serial == serial)
                        return true;
        }
        return false;
}

/* The outcome of a request that is refused for what it is; 0 for none. */
static int predict(const struct model *model, const struct model_client *client,
                   const struct policy_ask *ask)
{
        if (ask->pool >= MODEL_N_POOLS)
                return GPUMEM_E_NO_POOL;
        if (ask->n_bytes == 0 || ask->n_bytes % (2 * MIB) != 0)
                return GPUMEM_E_BAD_REQUEST;
        if (ask->n_bytes > model->pools[ask->pool].max_bytes)
                return GPUMEM_E_TOO_LARGE;
        if (model_n_unanswered(model, client) >= 64)
                return GPUMEM_E_TOO_MANY;
        if (model->draining)
                return GPUMEM_E_SHUTTING_DOWN;
        if (model_n_taken_slots(model, client) >= client->n_slots)
                return GPUMEM_E_TOO_MANY;
        if (is_duplicate(model, client, ask->serial))
                return GPUMEM_E_BAD_REQUEST;
        return 0;
}

static bool room_is_there(const struct model *model, const struct policy_ask *ask)
{
        uint64_t n_bytes;

        if (ask->pool >= MODEL_N_POOLS || model_n_queued(model, ask->pool) > 0 ||
            model->pools[ask->pool].driver_status != DRIVER_SERVES)
                return false;
        n_bytes = model->pools[ask->pool].max_bytes + model_evictable(model, ask->pool) +
                  model_incoming(model, ask->pool);
        return ask->n_bytes + model_reserved(model, ask->pool) <= n_bytes;
}

/* A tenant that begins to wait is level with the one that was given to last. */
static void begin_to_wait(struct model *model, const struct model_request *request)
{
        struct model_pool *pool = &model->pools[request->ask.pool];
        const struct model_request *other;

        TAILQ_FOREACH (other, &model->requests, link) {
                if (other->client->uid == request->client->uid &&
                    other->ask.pool == request->ask.pool && !other->outcome)
                        return;
        }
        if (pool->n_given_bytes[request->client->uid] < pool->reached)
                pool->n_given_bytes[request->client->uid] = pool->reached;
}

void model_ask(struct model *model, struct model_client *client, const struct policy_ask *ask)
{
        struct model_request *request = calloc(1, sizeof(*request));

        must(model, request);
        *request = (struct model_request){
                .client = client,
                .ask = *ask,
                .predicted = model->settled,
                .outcome = predict(model, client, ask),
                .step = model->step,
                .number = ++model->n_asked,
                .room_was_there = model->kind == MODEL_EXACT && room_is_there(model, ask),
        };
        if (ask->only_known || ask->only_cached)
                request->ask.deadline_ns = 0;
        request->may_wait = request->ask.deadline_ns > model->now_ns;
        if (ask->pool < MODEL_N_POOLS && model->pools[ask->pool].driver_status == DRIVER_LOST)
                request->failure = -ENODEV;
        if (!request->outcome)
                begin_to_wait(model, request);
        if (!request->outcome && !model->pools[ask->pool].rests[client->uid].asked_ns)
                model->pools[ask->pool].rests[client->uid].asked_ns = model->now_ns;
        TAILQ_INSERT_TAIL(&model->requests, request, link);
        policy_lease(model->policy, client->client, ask, model->now_ns);
        /* One that is refused for what it is changes nothing for others. */
        if (request->outcome)
                model_happened(model);
        else
                model_happened_and_served(model);
}

void model_cancel(struct model *model, struct model_request *request)
{
        request->cancelled = true;
        if (model->settled)
                model_make_for_cache(model, request);
        policy_cancel(model->policy, request->client->client, request->ask.serial, model->now_ns);
        model_happened(model);
}

void model_return(struct model *model, struct model_lease *lease, enum return_kind kind)
{
        struct model_client *client = lease->client;
        struct model_block *block = lease->block;
        int r = policy_return(model->policy, client->client, lease->id, kind, model->now_ns);

        model_happened(model);
        if (!lease->busy) {
                must(model, r == GPUMEM_E_NO_LEASE);
                return;
        }
        must(model, r == 0);
        model_end_use(model, lease);
        if (kind != RETURN_MAPPED)
                end_mapping(model, lease);
        if (model_oldest_user(block))
                return;
        block->unusable = block->unusable || (kind == RETURN_UNUSED && block->n_grants == 1);
        model_cache(model, block);
}

void model_unmap(struct model *model, struct model_lease *lease)
{
        int r = policy_unmapped(model->policy, lease->client->client, lease->id, model->now_ns);

        model_happened(model);
        must(model, r == (lease->busy ? GPUMEM_E_NO_LEASE : 0));
        if (!lease->busy)
                end_mapping(model, lease);
}
