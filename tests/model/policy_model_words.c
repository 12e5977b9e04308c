/* SPDX-License-Identifier: Apache-2.0 */
/* What clients write on their boards, and what the policy made of it. */
#include "proto/board.h"
#include "tests/model/policy_model.h"

void model_say(struct model *model, struct model_client *client, uint32_t slot, uint64_t word)
{
        must(model, client->words && slot < client->n_slots);
        model->said = true;
        client->said[slot] = word;
        atomic_store(&client->words[slot], word);
}

bool model_is_idle(const struct model_lease *lease)
{
        const struct model_client *client = lease->client;

        return lease->busy && client->words && !(lease->block->properties & POLICY_FRESH) &&
               board_is(&client->words[lease->slot], lease->id, BOARD_IDLE);
}

void model_note_idle(struct model_client *client)
{
        struct model_lease *lease;

        LIST_FOREACH (lease, &client->leases, client_link)
                lease->idle_at_end = model_is_idle(lease);
}

/* It was idle, and only the policy says that it is revoked. */
static bool was_revoked(const struct model_client *client, const struct model_lease *lease)
{
        uint64_t word = board_word(lease->id, BOARD_REVOKED);

        return lease->busy && client->words && atomic_load(&client->words[lease->slot]) == word &&
               client->said[lease->slot] != word;
}

static void note(struct model *model, struct model_client *client, struct model_lease *lease)
{
        struct model_block *block = lease->block;

        must(model, model_speaks(client));
        must(model, client->said[lease->slot] == board_word(lease->id, BOARD_IDLE));
        must(model, block->state == MODEL_HELD && !(block->properties & POLICY_FRESH));
        client->said[lease->slot] = board_word(lease->id, BOARD_REVOKED);
        lease->revoked = true;
        model_end_use(model, lease);
        block->state = MODEL_CACHED;
        block->cached_at = model->n_cachings;
        model_note_cached(model, block);
        block->was_idle = true;
        block->lost_by = client;
        model->revoked = true;
        model->n_revoked++;
}

void model_note_revoked(struct model *model)
{
        struct model_client *client;
        struct model_lease *lease;

        /* In which order they were revoked is not known. */
        model->n_cachings++;
        LIST_FOREACH (client, &model->clients, link) {
                LIST_FOREACH (lease, &client->leases, client_link) {
                        if (was_revoked(client, lease))
                                note(model, client, lease);
                }
        }
}
