/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of clients, tenants and pools, and what they allow. */
#include <stdlib.h>

#include "tests/model/policy_model.h"

uint64_t model_excess(const struct model *model, uint32_t pool)
{
        const struct model_block *block;
        uint64_t n_bytes = 0, max_bytes = model->pools[pool].max_bytes;

        LIST_FOREACH (block, &model->blocks, link) {
                if (block->pool == pool && block->state != MODEL_RELEASING &&
                    block->state != MODEL_LINGERING)
                        n_bytes += block->n_bytes;
        }
        return n_bytes > max_bytes ? n_bytes - max_bytes : 0;
}

/* One that was made for a request is charged to it until that is told, and after. */
static const struct model_client *charge_owner(const struct model_block *block)
{
        if (block->state == MODEL_MADE)
                return block->request->client;
        return model_charge_owner(block);
}

static struct usage usage_of(const struct model *model, const struct model_client *client,
                             uint32_t uid)
{
        struct usage usage = {{0}};
        const struct model_block *block;

        LIST_FOREACH (block, &model->blocks, link) {
                const struct model_client *charged = charge_owner(block);
                unsigned kind = block->pool == MODEL_PINNED_POOL ? LIMIT_PINNED_BYTES
                                                                 : LIMIT_DEVICE_BYTES;

                if (!charged || (client ? charged != client : charged->uid != uid))
                        continue;
                usage.n[kind] += block->n_bytes;
                usage.n[LIMIT_LEASES]++;
        }
        return usage;
}

static uint64_t max_of(const struct model *model, enum limit_scope scope, uint32_t uid,
                       unsigned kind)
{
        if (scope == LIMIT_OF_CLIENT)
                return model->client_max[kind];
        return model->uid_max[uid][kind] == LIMIT_INHERIT ? model->tenant_max[kind]
                                                          : model->uid_max[uid][kind];
}

/* The scope of a limit that so much more would pass, on top of `usage`; 0 for none. */
static bool passes(const struct model *model, const struct model_client *client,
                   enum limit_scope scope, uint32_t pool, uint64_t n_bytes, struct usage usage)
{
        unsigned kind = pool == MODEL_PINNED_POOL ? LIMIT_PINNED_BYTES : LIMIT_DEVICE_BYTES;

        return usage.n[kind] + n_bytes > max_of(model, scope, client->uid, kind) ||
               usage.n[LIMIT_LEASES] + 1 > max_of(model, scope, client->uid, LIMIT_LEASES);
}

enum limit_scope model_limit(const struct model *model, const struct model_client *client,
                             uint32_t pool, uint64_t n_bytes)
{
        if (passes(model, client, LIMIT_OF_CLIENT, pool, n_bytes, usage_of(model, client, 0)))
                return LIMIT_OF_CLIENT;
        if (passes(model, client, LIMIT_OF_TENANT, pool, n_bytes,
                   usage_of(model, NULL, client->uid)))
                return LIMIT_OF_TENANT;
        return 0;
}

enum limit_scope model_limit_by(const struct model *model, const struct model_client *client,
                                const struct model_block *block)
{
        const struct model_client *charged = model_charge_owner(block);

        if (charged == client)
                return 0;
        if (charged && passes(model, client, LIMIT_OF_CLIENT, block->pool, block->n_bytes,
                              usage_of(model, client, 0)))
                return LIMIT_OF_CLIENT;
        return charged ? 0 : model_limit(model, client, block->pool, block->n_bytes);
}

/* Does the party (a client, or all of a uid) use the block, whichever client is charged? */
static bool uses(const struct model_block *block, const struct model_client *client, uint32_t uid)
{
        const struct model_lease *lease;

        TAILQ_FOREACH (lease, &block->leases, block_link) {
                if (lease->busy && (client ? lease->client == client : lease->client->uid == uid))
                        return true;
        }
        return false;
}

static bool is_party(const struct model_client *who, const struct model_client *client,
                     uint32_t uid)
{
        return who && (client ? who == client : who->uid == uid);
}

/* What the party is charged for, and would be if others left; without this block. */
static struct usage burden_of(const struct model *model, const struct model_client *client,
                              uint32_t uid, const struct model_block *but)
{
        struct usage usage = usage_of(model, client, uid);
        const struct model_block *block;

        LIST_FOREACH (block, &model->blocks, link) {
                unsigned kind = block->pool == MODEL_PINNED_POOL ? LIMIT_PINNED_BYTES
                                                                 : LIMIT_DEVICE_BYTES;

                if (block == but || is_party(charge_owner(block), client, uid) ||
                    !uses(block, client, uid))
                        continue;
                usage.n[kind] += block->n_bytes;
                usage.n[LIMIT_LEASES]++;
        }
        return usage;
}

static bool bars(const struct model *model, const struct model_client *client,
                 const struct model_block *block, enum limit_scope scope)
{
        const struct model_client *party = scope == LIMIT_OF_CLIENT ? client : NULL;

        if (is_party(charge_owner(block), party, client->uid))
                return false;
        return passes(model, client, scope, block->pool, block->n_bytes,
                      burden_of(model, party, client->uid, block));
}

bool model_bars(const struct model *model, const struct model_client *client,
                const struct model_block *block)
{
        return bars(model, client, block, LIMIT_OF_CLIENT) ||
               bars(model, client, block, LIMIT_OF_TENANT);
}

bool model_can_never_be(const struct model *model, const struct model_request *request)
{
        const struct usage nothing = {{0}};
        const struct policy_ask *ask = &request->ask;

        return passes(model, request->client, LIMIT_OF_CLIENT, ask->pool, ask->n_bytes, nothing) ||
               passes(model, request->client, LIMIT_OF_TENANT, ask->pool, ask->n_bytes, nothing);
}

/* Who waits for which limit, going through the queue from its head to the request. */
enum limit_scope model_held(const struct model *model, const struct model_request *request)
{
        struct model_request *older;
        struct model_client *client;
        bool tenant_waits[MODEL_N_UIDS] = {false};
        enum limit_scope scope = 0;

        LIST_FOREACH (client, &((struct model *)model)->clients, link)
                client->waits_for_limit = false;
        TAILQ_FOREACH (older, &((struct model *)model)->requests, link) {
                client = older->client;
                if (older->ask.pool != request->ask.pool || older->block)
                        continue;
                if (client->waits_for_limit)
                        scope = LIMIT_OF_CLIENT;
                else if (tenant_waits[client->uid])
                        scope = LIMIT_OF_TENANT;
                else
                        scope = model_limit(model, client, older->ask.pool, older->ask.n_bytes);
                if (older == request)
                        return scope;
                client->waits_for_limit |= scope == LIMIT_OF_CLIENT;
                tenant_waits[client->uid] |= scope == LIMIT_OF_TENANT;
        }
        return 0;
}

static void tell(struct model *model, enum limit_scope scope, uint32_t uid, unsigned kind,
                 uint64_t max)
{
        must(model, policy_set_limit(model->policy, scope, uid, (enum limit_kind)kind, max,
                                     model->now_ns) == 0);
}

void model_set_limit(struct model *model, enum limit_scope scope, uint32_t uid, unsigned kind,
                     uint64_t max)
{
        if (scope == LIMIT_OF_CLIENT)
                model->client_max[kind] = max;
        else if (uid == POLICY_EVERY_UID)
                model->tenant_max[kind] = max;
        else
                model->uid_max[uid][kind] = max;
        model_happened(model);
        tell(model, scope, uid, kind, max);
}

void model_clear_limits(struct model *model)
{
        for (unsigned kind = 0; kind < LIMIT_N_KINDS; kind++) {
                model->client_max[kind] = LIMIT_NONE;
                model->tenant_max[kind] = LIMIT_NONE;
                for (unsigned uid = 0; uid < MODEL_N_UIDS; uid++)
                        model->uid_max[uid][kind] = LIMIT_INHERIT;
        }
        model_happened(model);
        policy_set_limits(model->policy, NULL, model->now_ns);
}

void model_set_pool_max(struct model *model, uint32_t pool, uint64_t max_bytes)
{
        struct model_pool *expected = &model->pools[pool];

        expected->max_bytes = max_bytes;
        if (max_bytes > expected->max_since)
                expected->max_since = max_bytes;
        expected->was_trimmed = true;
        model_happened(model);
        must(model, policy_set_pool_max(model->policy, pool, max_bytes, model->now_ns) == 0);
}
