/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/report/listing.h"

#include "daemon/policy/accounting/charge.h"
#include "daemon/policy/objects/block.h"
#include "daemon/policy/report/stats.h"

/* A block adds to exactly one of the pool's three totals, which tells its state. */
static enum block_listed listed_state(const struct block *block)
{
        struct totals count = {0};

        block_count(block, &count);
        if (count.leased)
                return BLOCK_IS_LEASED;
        return count.cached ? BLOCK_IS_CACHED : BLOCK_IS_LINGERING;
}

/* A client of another tenant may have attached the block, and be charged for it. */
static const struct tenant *listed_tenant(const struct block *block)
{
        const struct client *charged = block->charge.client;

        return charged ? charged->tenant : block->holding->tenant;
}

static struct block_listing describe_block(const struct block *block)
{
        const struct tenant *tenant = listed_tenant(block);

        return (struct block_listing){
                .id = block->id,
                .n_bytes = block->bin->n_bytes,
                .pool = block->pool->id,
                .properties = block->bin->properties,
                .state = listed_state(block),
                .is_idle = block_may_be_idle(block) && block->seen_idle,
                .tenant = tenant,
                .uid = tenant->key.uid,
                .charged = block->charge.client,
                .n_holders = block->n_busy,
                .lease_id = block_is_mapped(block) ? TAILQ_FIRST(&block->leases)->id : 0,
                .n_charge_transfers = block->n_charge_transfers,
                .made_ns = block->made_ns,
                .since_ns = block->since_ns,
        };
}

bool policy_list_blocks(struct policy *policy, struct numbered_walk *walk,
                        void (*take)(const struct block_listing *block, void *argument),
                        void *argument)
{
        const struct block *block;

        while ((block = policy_next_block(policy, walk))) {
                struct block_listing listing = describe_block(block);

                take(&listing, argument);
        }
        return !numbered_is_over(&policy->blocks, walk);
}

bool policy_list_unused(struct policy *policy, struct numbered_walk *walk,
                        void (*take)(uint32_t pool, uint64_t n_bytes, void *argument),
                        void *argument)
{
        const struct block *block;

        while ((block = policy_next_block(policy, walk))) {
                if (block->seen_idle || block->state == BLOCK_CACHED ||
                    block->state == BLOCK_CREATING_FOR_CACHE)
                        take(block->pool->id, block->bin->n_bytes, argument);
        }
        return !numbered_is_over(&policy->blocks, walk);
}

static const struct ranking *find_ranking(const struct policy *policy, uint32_t pool,
                                          const struct tenant *tenant)
{
        return tenant ? &tenant->holdings[pool].by_charge : &policy->pools[pool]->by_charge;
}

struct holder_sums policy_sum_holders(const struct policy *policy, uint32_t pool,
                                      const struct tenant *tenant)
{
        return (struct holder_sums){.n_clients = find_ranking(policy, pool, tenant)->n_sums,
                                    .n_bytes = tenant ? tenant->holdings[pool].charged
                                                      : policy->pools[pool]->charged};
}

void policy_list_holders(const struct policy *policy, uint32_t pool, const struct tenant *tenant,
                         unsigned n_max, void (*take)(const struct client *client, void *argument),
                         void *argument)
{
        const struct ranking *ranking = find_ranking(policy, pool, tenant);
        struct ranked *ranked = ranking_first(ranking);

        for (unsigned n = 0; ranked && n < n_max; ranked = ranking_next(ranking, ranked), n++) {
                const struct client *client =
                        charge_sum_of(ranked, tenant ? CHARGE_OF_TENANT : CHARGE_OF_POOL)->client;

                if (client->owner)
                        take(client, argument);
        }
}

static struct tenant_listing describe_holding(const struct holding *holding)
{
        const struct tenant *tenant = holding->tenant;

        return (struct tenant_listing){
                .tenant = tenant,
                .key = &tenant->key,
                .pool = holding->pool->id,
                .leased = holding->totals.leased,
                .idle = holding->seen_idle_bytes,
                .cached = holding->totals.cached,
                .lingering = holding->totals.lingering,
                .charged = holding->charged,
                .declared = holding->declared,
                .reserved_peak = holding->reserved_peak,
                .n_blocks = holding->totals.n_blocks,
                .n_clients = holding->by_charge.n_sums,
                .n_waiting = holding->n_waiting,
        };
}

bool policy_list_tenants(const struct policy *policy, struct numbered_walk *walk,
                         bool (*is_chosen)(const struct tenant_key *key, const void *argument),
                         void (*take)(const struct tenant_listing *tenant, void *argument),
                         void *argument)
{
        const struct tenant *tenant;

        while ((tenant = numbered_next(&policy->tenants_by_number, walk))) {
                if (is_chosen && !is_chosen(&tenant->key, argument))
                        continue;
                numbered_spend(walk, tenant->n_holdings / LISTING_POOLS_AN_ITEM);
                for (uint32_t i = 0; i < tenant->n_holdings; i++) {
                        struct tenant_listing listing = describe_holding(&tenant->holdings[i]);

                        take(&listing, argument);
                }
        }
        return !numbered_is_over(&policy->tenants_by_number, walk);
}

bool policy_charged_to_others(const struct policy *policy, struct numbered_walk *walk,
                              bool (*is_chosen)(const struct tenant_key *key, const void *argument),
                              const void *argument, uint64_t *n_bytes)
{
        const struct tenant *owner, *charged;
        const struct block *block;

        while ((block = numbered_next(&policy->blocks, walk))) {
                owner = block->holding->tenant;
                charged = block->charge.client ? block->charge.client->tenant : owner;
                if (charged != owner && is_chosen(&owner->key, argument) &&
                    !is_chosen(&charged->key, argument))
                        *n_bytes += block->bin->n_bytes;
        }
        return !numbered_is_over(&policy->blocks, walk);
}

uint64_t client_number(const struct client *client)
{
        return client->number;
}

const struct tenant *client_tenant(const struct client *client)
{
        return client->tenant;
}

uint32_t tenant_number(const struct tenant *tenant)
{
        return tenant->number;
}

const struct tenant_key *client_tenant_key(const struct client *client)
{
        return &client->tenant->key;
}

uint64_t client_attached(const struct client *client, uint32_t pool)
{
        return pool < client->policy->n_pools ? client->sums[pool].n_attached_bytes : 0;
}

uint64_t client_declared(const struct client *client, uint32_t pool)
{
        return pool < client->policy->n_pools ? client->declared[pool].n_bytes : 0;
}

uint64_t client_waiting(const struct client *client, uint32_t pool)
{
        const struct request *request;
        uint64_t n = 0;

        TAILQ_FOREACH (request, &client->requests, client_link) {
                if (request->pool && request->pool->id == pool &&
                    (request->state == REQUEST_WAITING || request->state == REQUEST_CREATING))
                        n++;
        }
        return n;
}
