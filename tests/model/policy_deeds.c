/* SPDX-License-Identifier: Apache-2.0 */
/* What clients and time do, and how often all that may be done is. */
#include "tests/model/policy_deeds.h"

#include "base/err.h"
#include "daemon/policy/objects/unmap_timeout.h"
#include "daemon/policy/scheduling/backfill.h"
#include "daemon/policy/scheduling/revoke_idle.h"
#include "proto/board.h"

#define MAX_N_CLIENTS 8

static void join(struct play *play)
{
        static const uint32_t slots[] = {6, 24, 100};
        struct model_client *client;
        unsigned n = 0;

        LIST_FOREACH (client, &play->model.clients, link)
                n++;
        if (n < MAX_N_CLIENTS)
                (void)model_join(&play->model, (uint32_t)play_below(play, MODEL_N_UIDS),
                                 slots[play_below(play, ARRAY_SIZE(slots))],
                                 play_one_in(play, 4) ? MODEL_WITHOUT_WORDS : MODEL_WITH_WORDS);
}

void play_end_someone(struct play *play)
{
        struct model_client *client = play_any_client(play);

        if (!client)
                return;
        if (!client->eof && (client->dead || play_one_in(play, 2)))
                model_eof(&play->model, client);
        else
                model_dead(&play->model, client);
}

static uint64_t any_deadline(struct play *play)
{
        switch (play_below(play, 4)) {
        case 0:
                return 0;
        case 1:
                return UINT64_MAX;
        default:
                return play->model.now_ns + play_below(play, 300);
        }
}

/* Serials are used twice only on purpose, and then it must be known what is unanswered. */
static uint32_t any_serial(struct play *play, const struct model_client *client)
{
        struct model_request *request = TAILQ_FIRST(&play->model.requests);

        if (request && request->client == client && request->predicted && play->model.settled &&
            play_one_in(play, 10))
                return request->ask.serial;
        return ++play->model.last_serial;
}

static void ask(struct play *play)
{
        static const uint32_t properties[] = {0,
                                              0,
                                              0,
                                              0,
                                              0,
                                              0,
                                              4,
                                              POLICY_SHAREABLE,
                                              POLICY_REGISTERED,
                                              POLICY_RDMA | POLICY_REGISTERED};
        struct model_client *client = play_any_speaker(play);
        struct policy_ask ask;

        if (!client)
                return;
        ask = (struct policy_ask){
                .pool = (uint32_t)play_below(play, MODEL_N_POOLS),
                .serial = any_serial(play, client),
                .n_bytes = 2 * MIB * (1 + play_below(play, play_one_in(play, 8) ? 24 : 10)),
                .properties = play->kind == PLAY_SHARING && play_one_in(play, 2)
                                      ? POLICY_SHAREABLE
                                      : properties[play_below(play, ARRAY_SIZE(properties))],
                .deadline_ns = any_deadline(play),
        };
        if (play_one_in(play, 4))
                ask.n_least_bytes = 2 * MIB * (1 + play_below(play, 12));
        ask.known_will_do = play_one_in(play, 3);
        ask.only_known = ask.known_will_do && play_one_in(play, 3);
        ask.only_cached = play_one_in(play, 8);
        ask.keeps_mapped = play_one_in(play, 5);
        if (play_one_in(play, 60))
                ask.pool += MODEL_N_POOLS;
        if (play_one_in(play, 60))
                ask.n_bytes = play_below(play, 300) * MIB;
        model_ask(&play->model, client, &ask);
}

/* What an honest client may say of its lease. */
static void flip_one(struct play *play)
{
        struct model_lease *lease = play_any_lease(play);

        if (lease && lease->busy && lease->client->words)
                model_say(&play->model, lease->client, lease->slot,
                          board_word(lease->id, play_one_in(play, 3) ? BOARD_BUSY : BOARD_IDLE));
}

/* And what a liar may say of anything: leases of its own and others, of the past and the future. */
static void lie(struct play *play)
{
        struct model_client *client = play_any_client(play);
        uint64_t id = play_below(play, play->model.last_lease_id + 4);
        struct model_lease *lease = play_any_lease(play);
        uint32_t slot;
        uint64_t word;

        if (!client || !client->words)
                return;
        if (lease && play_one_in(play, 2))
                id = lease->id;
        slot = lease && lease->client == client && play_one_in(play, 2)
                       ? lease->slot
                       : (uint32_t)play_below(play, client->n_slots);
        word = play_one_in(play, 4) ? play_below(play, UINT64_MAX)
                                    : board_word(id, (enum board_state)play_below(play, 5));
        model_say(&play->model, client, slot, play_one_in(play, 8) ? 0 : word);
}

static void return_one(struct play *play)
{
        struct model_lease *lease = play_any_lease(play);

        if (lease)
                model_return(&play->model, lease,
                             (enum return_kind)play_below(play, RETURN_UNUSED + 1));
}

static void unmap_one(struct play *play)
{
        struct model_lease *lease = play_any_lease(play);

        if (lease)
                model_unmap(&play->model, lease);
}

/* Mostly one that can be shared. */
static void share_one(struct play *play)
{
        struct policy_share terms = {.granted_uid = POLICY_NO_UID};
        struct model_share *old = LIST_FIRST(&play->model.shares);
        struct model_lease *lease = play_any_lease(play);

        for (unsigned i = 0; i < 8; i++) {
                if (!lease || !(lease->block->properties & POLICY_SHAREABLE))
                        lease = play_any_lease(play);
        }
        if (!lease)
                return;
        for (unsigned i = 0; i < POLICY_TOKEN_BYTES; i++)
                terms.token.bytes[i] = (uint8_t)play_below(play, 256);
        if (old && play_one_in(play, 30))
                terms.token = old->terms.token;
        terms.n_bytes = play_below(play, lease->block->n_bytes + lease->block->n_bytes / 16);
        if (play_one_in(play, 2))
                terms.granted_uid = (uint32_t)play_below(play, MODEL_N_UIDS);
        model_share(&play->model, lease, &terms);
}

/* Mostly one that there is. */
static struct policy_token any_token(struct play *play)
{
        struct model_share *share = LIST_FIRST(&play->model.shares);
        struct policy_token token = {{1}};
        uint64_t n = play_below(play, 8);

        while (share && n--)
                share = LIST_NEXT(share, link);
        if (share)
                token = share->terms.token;
        if (play_one_in(play, 20))
                token.bytes[play_below(play, POLICY_TOKEN_BYTES)] ^= 1;
        return token;
}

static void attach_one(struct play *play)
{
        struct model_client *client = play_any_speaker(play);
        struct policy_token token = any_token(play);

        if (client)
                model_attach(&play->model, client, &token);
}

static void unshare_one(struct play *play)
{
        struct model_client *client = play_any_speaker(play);
        struct policy_token token = any_token(play);

        if (client)
                model_unshare(&play->model, client, &token);
}

static void cancel_one(struct play *play)
{
        struct model_request *request = TAILQ_FIRST(&play->model.requests);
        uint64_t n = play_below(play, 4);

        while (request && n--)
                request = TAILQ_NEXT(request, link);
        if (request && !request->cancelled && !request->failure &&
            !(request->predicted && request->outcome))
                model_cancel(&play->model, request);
}

static void work(struct play *play)
{
        (void)worker_do_one(&play->worker, &play->model, &play->random,
                            (uint32_t)play_below(play, MODEL_N_POOLS));
}

static void pass_time(struct play *play)
{
        if (play_one_in(play, 100))
                play->model.now_ns += play_below(play, BACKFILL_ROUND_NS);
        else
                play->model.now_ns += play_one_in(play, 20)
                                              ? play_below(play, REVOKE_IDLE_OTHERS_NS)
                                              : play_below(play, 40);
        if (play_one_in(play, 100))
                play->model.now_ns += UNMAP_TIMEOUT_NS;
        model_expire(&play->model);
        policy_see_some_idle(play->model.policy, (uint32_t)play_below(play, MODEL_N_POOLS),
                             (unsigned)play_below(play, 8));
}

void play_do_something(struct play *play)
{
        static const struct {
                unsigned weights[3]; /* by kind of play */
                void (*deed)(struct play *play);
        } deeds[] = {
                {{300, 300, 100}, ask},
                {{250, 40, 60}, return_one},
                {{100, 100, 100}, unmap_one},
                {{40, 10, 5}, cancel_one},
                {{400, 400, 300}, work},
                {{60, 30, 60}, pass_time},
                {{15, 15, 8}, join},
                {{14, 6, 4}, play_end_someone},
                {{6, 6, 6}, deed_release_all},
                {{5, 5, 5}, deed_change_strangers},
                {{8, 8, 8}, deed_retry},
                {{10, 60, 10}, share_one},
                {{10, 120, 20}, attach_one},
                {{2, 6, 2}, unshare_one},
                {{8, 8, 4}, deed_change_limit},
                {{6, 6, 4}, deed_change_pool},
                {{10, 10, 5}, deed_mark_unusable},
                {{250, 60, 400}, flip_one},
                {{30, 30, 30}, lie},
                {{6, 6, 4}, deed_change_driver_status},
                {{6, 6, 6}, deed_reclaim},
                {{20, 10, 6}, deed_prewarm},
                {{6, 6, 4}, deed_change_keep},
                {{20, 20, 6}, deed_age},
                {{0, 0, 40}, deed_drain_idle},
        };
        uint64_t n_weights = 0, n;
        unsigned i;

        for (i = 0; i < ARRAY_SIZE(deeds); i++)
                n_weights += deeds[i].weights[play->kind];
        n = play_below(play, n_weights);
        for (i = 0; n >= deeds[i].weights[play->kind]; i++)
                n -= deeds[i].weights[play->kind];
        deeds[i].deed(play);
}
