/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens, and who may do what by them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "tests/model/policy_model.h"

#define MOST_TOKENS 64

struct model_client *model_oldest_user(const struct model_block *block)
{
        struct model_client *client = NULL;
        struct model_lease *lease;

        TAILQ_FOREACH (lease, &block->leases, block_link)
                client = lease->busy ? lease->client : client;
        return client;
}

void model_end_use(struct model *model, struct model_lease *lease)
{
        struct model_share *share, *next;

        lease->busy = false;
        if (model_oldest_user(lease->block))
                return;
        for (share = LIST_FIRST(&model->shares); share; share = next) {
                next = LIST_NEXT(share, link);
                if (share->block != lease->block)
                        continue;
                LIST_REMOVE(share, link);
                free(share);
        }
}

static struct model_share *find(const struct model *model, const struct policy_token *token)
{
        struct model_share *share;

        LIST_FOREACH (share, &model->shares, link) {
                if (memcmp(&share->terms.token, token, sizeof(*token)) == 0)
                        return share;
        }
        return NULL;
}

static unsigned n_tokens(const struct model *model, const struct model_block *block)
{
        const struct model_share *share;
        unsigned n = 0;

        LIST_FOREACH (share, &model->shares, link)
                n += share->block == block;
        return n;
}

static int predict_share(const struct model *model, const struct model_lease *lease,
                         const struct policy_share *terms)
{
        if (!lease->busy)
                return GPUMEM_E_NO_LEASE;
        if (!(lease->block->properties & POLICY_SHAREABLE) || lease->attached)
                return GPUMEM_E_NOT_SHAREABLE;
        if (terms->n_bytes == 0 || terms->n_bytes > lease->block->n_bytes)
                return GPUMEM_E_BAD_REQUEST;
        if (n_tokens(model, lease->block) == MOST_TOKENS)
                return GPUMEM_E_TOO_MANY;
        return find(model, &terms->token) ? -EEXIST : 0;
}

void model_share(struct model *model, struct model_lease *lease, const struct policy_share *terms)
{
        int expected = predict_share(model, lease, terms);
        struct model_share *share;

        must(model,
             policy_share(model->policy, lease->client->client, lease->id, terms) == expected);
        if (expected)
                return;
        share = calloc(1, sizeof(*share));
        must(model, share);
        share->terms = *terms;
        share->block = lease->block;
        LIST_INSERT_HEAD(&model->shares, share, link);
}

static bool is_for(const struct model_share *share, const struct model_client *client)
{
        return share->block->uid == client->uid || share->terms.granted_uid == client->uid;
}

static void attached(struct model *model, struct model_client *client,
                     const struct model_share *share, const struct lease *name)
{
        must(model, share->block->state == MODEL_HELD);
        must(model, lease_block(name) == share->block->block);
        model_add_lease(model, client, share->block, name);
        LIST_FIRST(&client->leases)->attached = true;
        model->n_attached++;
}

void model_attach(struct model *model, struct model_client *client,
                  const struct policy_token *token)
{
        const struct model_share *share = find(model, token);
        bool is_full = model_n_taken_slots(model, client) >= client->n_slots;
        bool is_barred = share && model_bars(model, client, share->block);
        uint64_t n_bytes = 0;
        struct lease *name = NULL;
        int r = policy_attach(model->policy, client->client, token, &name, &n_bytes);

        if (!share || !is_for(share, client)) {
                must(model, r == GPUMEM_E_NO_TOKEN);
        } else if (model->draining) {
                must(model, r == GPUMEM_E_SHUTTING_DOWN);
        } else if (model->pools[share->block->pool].driver_status == DRIVER_LOST) {
                must(model, r == GPUMEM_E_DRIVER);
        } else if (r) {
                must(model, r == GPUMEM_E_LIMIT || (r == GPUMEM_E_TOO_MANY && is_full));
                must(model, (r == GPUMEM_E_LIMIT) == is_barred || !model->settled);
        } else {
                /* Requests that were refused stand for slots until the refusal is taken. */
                must(model, (!is_full && !is_barred) || !model->settled);
                must(model, n_bytes == share->terms.n_bytes);
                attached(model, client, share, name);
        }
        must(model, !r == !!name && !r == !!n_bytes);
}

void model_unshare(struct model *model, struct model_client *client,
                   const struct policy_token *token)
{
        struct model_share *share = find(model, token);
        int r = policy_unshare(model->policy, client->client, token, model->now_ns);

        if (!share || share->block->uid != client->uid) {
                must(model, r == GPUMEM_E_NO_TOKEN);
                return;
        }
        must(model, r == 0);
        LIST_REMOVE(share, link);
        free(share);
}
