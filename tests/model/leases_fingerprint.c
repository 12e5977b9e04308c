/* SPDX-License-Identifier: Apache-2.0 */
/* A state as numbers, in which leases and blocks are called by the order in which they are met: they are
 * never used twice, and nothing but their being the same matters. */
#include <assert.h>

#include "daemon/policy/objects/block.h"
#include "daemon/policy/scheduling/backfill.h"
#include "daemon/policy/scheduling/revoke_idle.h"
#include "daemon/policy/state/types.h"
#include "tests/model/leases_world.h"

#define N_NUMBERS 1024
#define N_NAMES   64

struct names {
        uint64_t ids[N_NAMES];
        unsigned n;
};

struct text {
        uint32_t numbers[N_NUMBERS];
        unsigned n;
        struct names leases, blocks;
};

static void add(struct text *text, uint64_t number)
{
        assert(text->n < N_NUMBERS && number <= UINT32_MAX);
        text->numbers[text->n++] = (uint32_t)number;
}

static void add_name(struct text *text, struct names *names, uint64_t id)
{
        unsigned i = 0;

        if (!id) {
                add(text, 0);
                return;
        }
        while (i < names->n && names->ids[i] != id)
                i++;
        if (i == names->n) {
                assert(i < N_NAMES);
                names->ids[names->n++] = id;
        }
        add(text, i + 1);
}

static void add_lease(struct text *text, uint64_t id)
{
        add_name(text, &text->leases, id);
}

static void add_block(struct text *text, const struct block *block)
{
        add_name(text, &text->blocks, block ? block->id : 0);
}

static void add_queue(struct text *text, const struct queue *queue)
{
        add(text, queue->n);
        for (unsigned i = 0; i < queue->n; i++) {
                add(text, queue->messages[i].kind);
                add(text, queue->messages[i].slot);
                add_lease(text, queue->messages[i].lease);
                add_name(text, &text->blocks, queue->messages[i].block);
        }
}

static void add_held(struct text *text, const struct held *held)
{
        add(text, (uint64_t)held->state << 3 | (uint64_t)held->mapped << 2 |
                          (uint64_t)held->used << 1 | held->was_used);
        add_lease(text, held->lease);
        add_name(text, &text->blocks, held->block);
}

static void add_party(struct text *text, const struct party *party)
{
        add(text, (uint64_t)party->life << 8 | (uint64_t)party->session << 4 |
                          (uint64_t)party->left << 3 | (uint64_t)party->asking << 2);
        add(text, party->n_asks_left);
        for (uint32_t slot = 0; slot < N_SLOTS; slot++) {
                add_held(text, &party->held[slot]);
                add_lease(text, party->words[slot] >> 8);
                add(text, party->words[slot] & 0xff);
        }
        add_queue(text, &party->to_daemon);
        add_queue(text, &party->from_daemon);
}

static void add_policy_lease(struct text *text, const struct lease *lease)
{
        add_lease(text, lease->id);
        add_block(text, lease->block);
        add(text, (uint64_t)lease->slot << 16 | (uint64_t)lease->state << 8 |
                          (uint64_t)lease->revoked << 1 | lease->recalled);
}

static void add_client(struct text *text, const struct client *client)
{
        const struct lease *lease;
        const struct request *request;

        add(text, !client);
        if (!client)
                return;
        add(text, (uint64_t)client->eof << 1 | client->dead);
        TAILQ_FOREACH (lease, &client->leases, client_link)
                add_policy_lease(text, lease);
        add(text, UINT32_MAX);
        LIST_FOREACH (lease, &client->returned, returned_link)
                add_lease(text, lease->id);
        add(text, UINT32_MAX);
        TAILQ_FOREACH (request, &client->requests, client_link) {
                add(text, (uint64_t)request->state << 1 | request->covered);
                add_lease(text, request->lease ? request->lease->id : 0);
                add_block(text, request->block);
        }
}

static uint64_t index_of(const struct client *client)
{
        const struct party *party = client ? client_owner(client) : NULL;

        return party ? (uint64_t)(party - world->parties) + 1 : 0;
}

/* Whom it is not for at present. */
static uint64_t barred_of(const struct block *block)
{
        if (!block->taken_from || world->now_ns >= block->taken_ns + REVOKE_IDLE_BACK_NS)
                return 0;
        for (unsigned i = 0; i < ARRAY_SIZE(world->parties); i++) {
                const struct client *client = world->parties[i].client;

                if (client && client->number == block->taken_from)
                        return i + 1;
        }
        return 0;
}

static void add_policy_block(struct text *text, const struct block *block)
{
        const struct lease *lease;

        add_block(text, block);
        add(text, (uint64_t)block->state << 16 | (uint64_t)block->holding->tenant->key.uid << 8 |
                          index_of(block->charge.client));
        TAILQ_FOREACH (lease, &block->leases, block_link)
                add_lease(text, lease->id);
        add(text, UINT32_MAX);
        add(text, barred_of(block));
        /* Its places in the lists. */
        if (block->state != BLOCK_CACHED && !block_may_be_idle(block))
                return;
        add_block(text, TAILQ_NEXT(block, bin_link));
        add_block(text, TAILQ_NEXT(block, holding_link));
        add_block(text, TAILQ_NEXT(block, pool_age_link));
}

static bool is_spared(const struct tenant *tenant)
{
        const struct holding *holding = &tenant->holdings[0];

        return holding->was_revoked_from &&
               world->now_ns < holding->revoked_ns + REVOKE_IDLE_OTHERS_NS;
}

/* Whether its requests hold up others, or may not just now. */
static unsigned hold_of(const struct holding *holding)
{
        const struct backfill_hold *hold = &holding->tenant->owner->owned[holding->pool->id].hold;

        if (!hold->was || world->now_ns >= hold->since_ns + BACKFILL_ROUND_NS)
                return 0;
        return world->now_ns < backfill_hold_end(hold) ? 1 : 2;
}

/* What decides who is looked at next, but not by how many bytes. */
static void add_fair_queue(struct text *text, const struct pool *pool)
{
        const struct holding *holding, *other;
        const struct request *request;

        TAILQ_FOREACH (holding, &pool->queue.holdings, queue_link) {
                TAILQ_FOREACH (other, &pool->queue.holdings, queue_link)
                        add(text, other->n_given_bytes < holding->n_given_bytes);
                add(text, hold_of(holding));
                TAILQ_FOREACH (request, &holding->waiting, queue_link)
                        add(text, (uint64_t)index_of(request->client) << 8 |
                                          backfill_n_bypassed(request));
        }
        add(text, UINT32_MAX);
}

static void add_pool(struct text *text, const struct pool *pool)
{
        const struct block *block;
        const struct tenant *tenant;

        add(text, pool->unserved);
        add_fair_queue(text, pool);
        LIST_FOREACH (block, &pool->blocks, pool_link)
                add_policy_block(text, block);
        for (tenant = world->policy->tenants; tenant; tenant = tenant->hh.next)
                add(text, (uint64_t)tenant->key.uid << 1 | is_spared(tenant));
}

static void add_rest(struct text *text)
{
        add(text, world->n_faults_left);
        add(text, world->n_revokes_left);
        add(text, world->n_lies_left);
        add(text, world->n_cancels_left);
        for (unsigned i = 0; i < world->n_jobs; i++) {
                add(text, world->jobs[i].creates);
                add_block(text, world->jobs[i].block);
        }
}

static uint64_t mix(uint64_t hash, uint64_t number, uint64_t by)
{
        hash = (hash ^ number) * by;
        return hash ^ hash >> 29;
}

struct fingerprint world_fingerprint(void)
{
        struct text text = {.n = 0};
        struct fingerprint fingerprint = {{UINT64_C(0x243f6a8885a308d3), 1}};

        for (unsigned i = 0; i < world->kind.n_parties; i++) {
                add_party(&text, &world->parties[i]);
                add_client(&text, world->parties[i].client);
        }
        add_pool(&text, world->policy->pools[0]);
        add_rest(&text);
        for (unsigned i = 0; i < text.n; i++) {
                fingerprint.words[0] = mix(fingerprint.words[0], text.numbers[i],
                                           UINT64_C(0x9e3779b97f4a7c15));
                fingerprint.words[1] = mix(fingerprint.words[1], text.numbers[i],
                                           UINT64_C(0xd6e8feb86659fd93));
        }
        return fingerprint;
}
