/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/accounting/charge.h"
#include "daemon/policy/check/check.h"

#include <assert.h>
#include <string.h>

#include "daemon/policy/accounting/charge.h"
#include "daemon/policy/objects/block.h"
#include "daemon/policy/objects/pool.h"
#include "daemon/policy/report/stats.h"
#include "daemon/policy/scheduling/backfill.h"
#include "daemon/policy/state/action_queue.h"

static uint64_t check_leases_of(const struct block *block)
{
        const struct lease *lease;
        uint64_t n_busy = 0;
        uint32_t n_to_recall = 0;

        TAILQ_FOREACH (lease, &block->leases, block_link) {
                assert(lease->block == block);
                assert(lease->state != LEASE_ASKED);
                assert(lease->client->tenant == block->holding->tenant || lease->attached);
                assert(!lease->attached || block->bin->properties & POLICY_SHAREABLE);
                assert(!lease->revoked || lease->state == LEASE_RETURNED);
                assert(!lease->left_in_use || (lease->state == LEASE_RETURNED && !lease->revoked &&
                                               lease->client->is_ending));
                assert(!lease->recalled || lease->revoked);
                assert(!action_is_queued(&lease->action) ||
                       (lease->action.kind == ACTION_NOTICE ? lease->recalled
                                                            : lease->state == LEASE_BUSY));
                n_busy += lease->state == LEASE_BUSY;
                n_to_recall += lease->revoked && !lease->recalled;
        }
        assert(n_to_recall == block->n_to_recall);
        return n_busy;
}

static const struct client *oldest_user(const struct block *block)
{
        const struct client *client = NULL;
        const struct lease *lease;

        TAILQ_FOREACH (lease, &block->leases, block_link)
                client = lease->state == LEASE_BUSY ? lease->client : client;
        return client;
}

/* The client that must be charged for the block in its state. */
static const struct client *liable(const struct block *block)
{
        switch (block->state) {
        case BLOCK_CREATING:
                return block->request->client;
        case BLOCK_LEASED:
                return oldest_user(block);
        case BLOCK_RELEASING:
        case BLOCK_LINGERING:
                return block_is_mapped(block) ? TAILQ_FIRST(&block->leases)->client : NULL;
        case BLOCK_CACHED:
                return charge_owner_in_cache(block);
        case BLOCK_CREATING_FOR_CACHE:
        case BLOCK_NONE:
        case BLOCK_N_STATES:
                break;
        }
        return NULL;
}

static void check_block(const struct block *block)
{
        enum block_state state = block->state;

        assert(state != BLOCK_NONE && state != BLOCK_N_STATES);
        assert(block->bin->bins == &block->holding->bins);
        assert(check_leases_of(block) == block->n_busy);
        assert((block->n_busy > 0) == (state == BLOCK_LEASED));
        assert(!block_may_be_idle(block) || TAILQ_FIRST(&block->leases)->state == LEASE_BUSY);
        assert(block->n_busy <= 1 || block->bin->properties & POLICY_SHAREABLE);
        check_shares_of(block);
        assert(block->charge.client == liable(block));
        assert(!block->charge.client ||
               (block->charge.n_bytes == block->bin->n_bytes && block->charge.pool == block->pool));
        assert((block->charge.kind == CHARGE_KEPT) ==
               (state == BLOCK_CACHED && block->charge.client));
        assert(block->in_charged == (state == BLOCK_CACHED && block->charge.client));
        assert(!!block->request == (state == BLOCK_CREATING));
        assert(!block->request || block->request->block == block);
        assert(!block->release_all || state == BLOCK_RELEASING ||
               (state == BLOCK_LINGERING && block->is_expected && !block_is_kept(block)));
        assert(state != BLOCK_LINGERING || (block_is_mapped(block) && !block->backing));
        if (state == BLOCK_CREATING || state == BLOCK_CREATING_FOR_CACHE)
                assert(!block_is_mapped(block) && !block->backing);
        if (state == BLOCK_CACHED)
                assert(!(block->bin->properties & POLICY_FRESH) && !block->unusable &&
                       !block->pool->closing);
        if (action_is_queued(&block->action))
                assert(block->action.kind == ACTION_RELEASE
                               ? state == BLOCK_RELEASING
                               : state == BLOCK_CREATING || (state == BLOCK_CREATING_FOR_CACHE &&
                                                             block_is_unowned(block)));
        assert(!block_is_unowned(block) || (!block_is_mapped(block) && !block->charge.client));
}

/* Whether the client was told to unmap the block and has not left: see unmap_timeout.h. */
static bool is_unresponsive(const struct client *client, const struct block *block)
{
        const struct lease *last = TAILQ_FIRST(&block->leases);

        return block->unmap_timed_out && last && last->client == client && last->recalled &&
               !client->is_ending;
}

static void check_unresponsive(const struct pool *pool)
{
        const struct client *client;
        const struct block *block;
        uint64_t n_bytes = 0;

        LIST_FOREACH (client, &pool->policy->clients, link) {
                uint64_t n_clients_bytes = 0;

                LIST_FOREACH (block, &pool->blocks, pool_link) {
                        assert((block->unresponsive_holder == client) ==
                               is_unresponsive(client, block));
                        n_clients_bytes += block->unresponsive_holder == client
                                                   ? block->bin->n_bytes
                                                   : 0;
                }
                assert(n_clients_bytes == client->sums[pool->id].n_unresponsive_bytes);
                n_bytes += n_clients_bytes;
        }
        assert(n_bytes == pool->unresponsive);
}

static void check_cached(const struct pool *pool)
{
        const struct block *block;
        uint64_t n_bytes = 0, last = 0;
        bool has_next = !pool->return_next, has_given = !pool->giving.next;

        TAILQ_FOREACH (block, &pool->cached, pool_age_link) {
                assert(block->state == BLOCK_CACHED && block->pool == pool);
                assert(block->cached_at > last && block->cached_at <= pool->n_cachings);
                last = block->cached_at;
                has_next = has_next || block == pool->return_next;
                has_given = has_given || block == pool->giving.next;
                assert(block->idle_since_ns <= block->since_ns);
                n_bytes += block->bin->n_bytes;
        }
        assert(has_next && has_given);
        assert(n_bytes ==
               pool->totals.evictable + pool->totals.mapped_cached + pool->totals.kept_cached);
}

static bool has_word(const struct block *block)
{
        return block->state == BLOCK_LEASED && block->n_busy &&
               !(block->bin->properties & POLICY_FRESH) &&
               TAILQ_FIRST(&block->leases)->client->words;
}

static void check_leased(const struct pool *pool)
{
        const struct block *block;
        uint64_t n = 0, n_seen_bytes = 0;
        bool has_next = !pool->look_next;

        TAILQ_FOREACH (block, &pool->leased, pool_age_link) {
                assert(block_may_be_idle(block) && block->pool == pool);
                n++;
        }
        LIST_FOREACH (block, &pool->blocks, pool_link) {
                assert(!block->seen_idle || block_may_be_idle(block));
                assert(block_may_be_idle(block) == has_word(block));
                assert(block->seen_in_use || block_may_be_idle(block));
                has_next = has_next || block == pool->look_next;
                n -= block_may_be_idle(block);
                n_seen_bytes += block->seen_idle ? block->bin->n_bytes : 0;
        }
        assert(n == 0 && n_seen_bytes == pool->seen_idle_bytes && has_next);
}

/* Checks the list of released blocks that clients still map, and their unresponsive holders. */
static void check_expected(const struct pool *pool)
{
        const struct block *block;
        uint64_t last_ns = 0, n = 0;

        TAILQ_FOREACH (block, &pool->expected, pool_age_link) {
                assert(block->is_expected && !block->unmap_timed_out &&
                       block->release_ns >= last_ns);
                last_ns = block->release_ns;
                n++;
        }
        LIST_FOREACH (block, &pool->blocks, pool_link) {
                bool is_released = block->state == BLOCK_RELEASING ||
                                   block->state == BLOCK_LINGERING;

                n -= block->is_expected;
                assert((block->is_expected || (block->unmap_timed_out && block_is_mapped(block))) ==
                       (is_released && block_is_mapped(block)));
        }
        assert(n == 0);
}

/* Returns how many of the tenant's requests wait. */
static uint64_t check_queue(const struct holding *holding)
{
        const struct request *request;
        uint64_t n = 0, last = 0;

        TAILQ_FOREACH (request, &holding->waiting, queue_link) {
                assert(request->state == REQUEST_WAITING || request->state == REQUEST_CREATING);
                assert(request->pool == holding->pool &&
                       request->refusal.pool == request->pool->id);
                assert(request->client->tenant == holding->tenant);
                assert(request->number > last &&
                       request->number <= request->pool->queue.n_enqueued);
                assert(request->n_bypassed <= BACKFILL_MAX);
                last = request->number;
                n++;
        }
        return n;
}

/* The walk's sums are those of the requests that it has met. */
static void check_walk(const struct pool *pool)
{
        const struct queue_walk *walk = &pool->queue.walk;
        const struct holding *holding;
        const struct request *request;
        uint64_t n_meant = 0, n_meant_bytes = 0;
        unsigned n_places = 0;

        TAILQ_FOREACH (holding, &pool->queue.holdings, queue_link) {
                n_places += (walk->at == holding) + (walk->after == holding) +
                            (walk->to_sort == holding);
                TAILQ_FOREACH (request, &holding->waiting, queue_link) {
                        if (!walk->number || request->meant != walk->number)
                                continue;
                        n_meant++;
                        n_meant_bytes += request->n_meant_bytes;
                }
        }
        assert(n_meant == walk->n_meant && n_meant_bytes == walk->n_meant_bytes);
        assert(n_places == (unsigned)!!walk->at + !!walk->after + !!walk->to_sort);
        assert(!walk->met && (walk->number || (!n_places && !walk->unfinished)));
        assert(!walk->unfinished || (walk->unfinished->state == REQUEST_WAITING &&
                                     request_holding(walk->unfinished) == walk->at));
}

static void check_waiting(const struct pool *pool)
{
        const struct holding *holding;
        uint64_t n = 0;

        TAILQ_FOREACH (holding, &pool->queue.holdings, queue_link) {
                assert(holding->pool == pool && !TAILQ_EMPTY(&holding->waiting));
                n += check_queue(holding);
        }
        assert(n == pool->n_waiting);
        check_walk(pool);
}

static void check_ranking(const struct pool *pool)
{
        const struct client *client;
        const struct owner *owner;
        uint64_t n_sums = 0, n_cachers = 0;

        LIST_FOREACH (client, &pool->policy->clients, link)
                n_sums += charge_sum_bytes(&client->sums[pool->id]) > 0;
        assert(n_sums == pool->by_charge.n_sums);
        ranking_check(&pool->by_charge);
        for (unsigned kind = 0; kind < EVICT_N_KINDS; kind++)
                ranking_check(&pool->by_cached[kind]);
        for (owner = pool->policy->owners; owner; owner = owner->hh.next)
                n_cachers += owner->owned[pool->id].cached > 0;
        assert(n_cachers == pool->n_cachers);
}

static void check_pool(const struct pool *pool)
{
        struct totals totals = {.lingering = pool->unreleasable};
        const struct block *block;
        uint64_t n_charged_bytes = 0, n_leases = 0;

        LIST_FOREACH (block, &pool->blocks, pool_link) {
                check_block(block);
                assert(block->pool == pool);
                block_count(block, &totals);
                n_charged_bytes += block->charge.client ? block->bin->n_bytes : 0;
                n_leases += block->n_busy;
        }
        assert(memcmp(&totals, &pool->totals, sizeof(totals)) == 0);
        assert(!pool_excess(pool) || TAILQ_EMPTY(&pool->cached) || pool->evicts_to_limit);
        assert(totals_reserved(&totals) <= pool->reserved_peak);
        assert(check_declared(pool, NULL) == pool->declared);
        assert(n_charged_bytes + pool->declared == pool->charged && n_leases == pool->n_leases);
        check_ranking(pool);
        check_cached(pool);
        check_leased(pool);
        check_expected(pool);
        check_unresponsive(pool);
        check_waiting(pool);
}

/* Pools, their lists and totals, and each block's state against every reference to it. */
static void check_pools(const struct policy *policy)
{
        for (uint32_t i = 0; i < policy->n_pools; i++) {
                assert(policy->pools[i]->policy == policy && policy->pools[i]->id == i);
                check_pool(policy->pools[i]);
        }
}

static uint64_t count_action(const struct policy *policy, const struct action_node *node)
{
        assert(!node->queue || node->queue == &policy->actions);
        return action_is_queued(node);
}

static uint64_t count_client_actions(const struct policy *policy, const struct client *client)
{
        uint64_t n = count_action(policy, &client->spare.action) +
                     count_action(policy, &client->mark);
        const struct request *request;
        const struct release_all *release_all;
        const struct lease *lease;

        for (uint32_t i = 0; i < policy->n_pools; i++)
                n += count_action(policy, &client->sums[i].pressure);
        TAILQ_FOREACH (request, &client->requests, client_link) {
                n += count_action(policy, &request->refusal.action);
                assert(action_is_queued(&request->refusal.action) ==
                       (request->state == REQUEST_REFUSED));
        }
        LIST_FOREACH (release_all, &client->release_alls, client_link) {
                n += count_action(policy, &release_all->action);
                assert(client->is_ending ||
                       action_is_queued(&release_all->action) ==
                               (LIST_EMPTY(&release_all->unreleased) && !release_all->is_walking));
        }
        TAILQ_FOREACH (lease, &client->leases, client_link)
                n += count_action(policy, &lease->action);
        return n;
}

/* Exactly the actions that objects call queued are in the queue. */
static void check_actions(const struct policy *policy)
{
        const struct action_node *node;
        const struct client *client;
        const struct block *block;
        uint64_t n = 0, n_queued = 0;

        LIST_FOREACH (client, &policy->clients, link)
                n += count_client_actions(policy, client);
        for (uint32_t i = 0; i < policy->n_pools; i++) {
                LIST_FOREACH (block, &policy->pools[i]->blocks, pool_link)
                        n += count_action(policy, &block->action);
        }
        TAILQ_FOREACH (node, &policy->actions.nodes, link)
                n_queued++;
        assert(n == n_queued);
}

void policy_check(const struct policy *policy)
{
        assert(policy_open_blocks(policy) <= policy->max_blocks);
        if (policy->limits)
                limits_check(policy->limits);
        check_pools(policy);
        check_tenants(policy);
        check_clients(policy);
        check_shares(policy);
        check_actions(policy);
}
