/* SPDX-License-Identifier: Apache-2.0 */
/* Chance, and what it falls on. */
#include "tests/model/policy_play.h"

uint64_t play_below(struct play *play, uint64_t n)
{
        return random_below(&play->random, n);
}

bool play_one_in(struct play *play, uint64_t n)
{
        return play_below(play, n) == 0;
}

enum action_kind play_take_one(struct play *play)
{
        struct model_block *block = NULL;
        enum action_kind kind = model_take(&play->model, &block);

        if (kind == ACTION_CREATE || kind == ACTION_RELEASE)
                worker_add(&play->worker, block, kind);
        return kind;
}

void play_settle(struct play *play)
{
        while (play_take_one(play) != ACTION_NONE)
                continue;
}

struct model_client *play_any_client(struct play *play)
{
        struct model_client *client;
        uint64_t n = 0;

        LIST_FOREACH (client, &play->model.clients, link)
                n++;
        if (!n)
                return NULL;
        n = play_below(play, n);
        LIST_FOREACH (client, &play->model.clients, link) {
                if (n-- == 0)
                        break;
        }
        return client;
}

struct model_client *play_any_speaker(struct play *play)
{
        struct model_client *client = play_any_client(play);

        return client && model_speaks(client) ? client : NULL;
}

struct model_lease *play_any_lease(struct play *play)
{
        struct model_client *client = play_any_speaker(play);
        struct model_lease *lease;
        uint64_t n = 0;

        if (!client || LIST_EMPTY(&client->leases))
                return NULL;
        LIST_FOREACH (lease, &client->leases, client_link)
                n++;
        n = play_below(play, n);
        LIST_FOREACH (lease, &client->leases, client_link) {
                if (n-- == 0)
                        break;
        }
        return lease;
}
