/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/report/listing.h"

#include "daemon/policy/accounting/charge_ranking.h"
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

static struct block_listing describe_block(const struct block *block)
{
        return (struct block_listing){
                .id = block->id,
                .n_bytes = block->bin->n_bytes,
                .pool = block_its_pool(block)->id,
                .properties = block->bin->properties,
                .state = listed_state(block),
                .is_idle = block_may_be_idle(block) && block->seen_idle,
                .tenant = block->holding->tenant,
                .uid = block->holding->tenant->key.uid,
                .charged = block->charge.client,
                .n_holders = block->n_busy,
                .lease_id = block_is_mapped(block) ? TAILQ_FIRST(&block->leases)->id : 0,
                .n_charge_transfers = block->n_charge_transfers,
                .made_ns = block->made_ns,
                .since_ns = block->since_ns,
        };
}

void policy_list_blocks(const struct policy *policy, uint32_t pool,
                        void (*take)(const struct block_listing *block, void *argument),
                        void *argument)
{
        const struct block *block;

        if (pool >= policy->n_pools)
                return;
        LIST_FOREACH (block, &policy->pools[pool]->blocks, pool_link) {
                struct block_listing listing = describe_block(block);

                take(&listing, argument);
        }
}

static const struct charge_ranking *find_ranking(const struct policy *policy, uint32_t pool,
                                                 const struct tenant *tenant)
{
        return tenant ? &tenant->holdings[pool].ranking : &policy->pools[pool]->ranking;
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
        const struct charge_ranking *ranking = find_ranking(policy, pool, tenant);
        const struct charge_sum *sum = charge_ranking_first(ranking);

        for (unsigned n = 0; sum && n < n_max; sum = charge_ranking_next(ranking, sum), n++) {
                if (sum->client->owner)
                        take(sum->client, argument);
        }
}

static void add_client(struct tenant_listing *listing, const struct client *client)
{
        if (client_charged(client, listing->pool))
                listing->n_clients++;
        listing->declared += client_declared(client, listing->pool);
        listing->n_waiting += client_waiting(client, listing->pool);
}

static uint64_t idle_bytes(const struct holding *holding)
{
        const struct block *block;
        uint64_t n_bytes = 0;

        TAILQ_FOREACH (block, &holding->leased, holding_link)
                n_bytes += block->seen_idle ? block->bin->n_bytes : 0;
        return n_bytes;
}

static struct tenant_listing describe_holding(const struct holding *holding)
{
        const struct tenant *tenant = holding->tenant;
        struct tenant_listing listing = {
                .tenant = tenant,
                .key = &tenant->key,
                .pool = holding->pool->id,
                .leased = holding->totals.leased,
                .idle = idle_bytes(holding),
                .cached = holding->totals.cached,
                .lingering = holding->totals.lingering,
                .charged = holding->charged,
                .reserved_peak = holding->reserved_peak,
                .n_blocks = holding->totals.n_blocks,
        };
        const struct client *client;

        LIST_FOREACH (client, &tenant->policy->clients, link) {
                if (client->tenant == tenant)
                        add_client(&listing, client);
        }
        return listing;
}

void policy_list_tenants(const struct policy *policy,
                         bool (*is_chosen)(const struct tenant_key *key, const void *argument),
                         void (*take)(const struct tenant_listing *tenant, void *argument),
                         void *argument)
{
        const struct tenant *tenant;

        for (tenant = policy->tenants; tenant; tenant = tenant->hh.next) {
                if (is_chosen && !is_chosen(&tenant->key, argument))
                        continue;
                for (uint32_t i = 0; i < tenant->n_holdings; i++) {
                        struct tenant_listing listing = describe_holding(&tenant->holdings[i]);

                        take(&listing, argument);
                }
        }
}

uint64_t policy_charged_to_others(const struct policy *policy,
                                  bool (*is_chosen)(const struct tenant_key *key,
                                                    const void *argument),
                                  const void *argument)
{
        const struct tenant *owner, *charged;
        const struct block *block;
        uint64_t n_bytes = 0;

        for (uint32_t i = 0; i < policy->n_pools; i++) {
                LIST_FOREACH (block, &policy->pools[i]->blocks, pool_link) {
                        owner = block->holding->tenant;
                        charged = block->charge.client ? block->charge.client->tenant : owner;
                        if (charged != owner && is_chosen(&owner->key, argument) &&
                            !is_chosen(&charged->key, argument))
                                n_bytes += block->bin->n_bytes;
                }
        }
        return n_bytes;
}

const struct tenant *client_tenant(const struct client *client)
{
        return client->tenant;
}

bool client_is_first_listed(struct client *client, uint64_t listing)
{
        bool is_first = client->tenant->listing != listing;

        client->tenant->listing = listing;
        return is_first;
}

const struct tenant_key *client_tenant_key(const struct client *client)
{
        return &client->tenant->key;
}

uint64_t client_attached(const struct client *client, uint32_t pool)
{
        const struct lease *lease;
        uint64_t n_bytes = 0;

        for (lease = client->leases; lease; lease = lease->hh.next) {
                if (lease->state == LEASE_BUSY && lease->block->charge.client != client &&
                    block_its_pool(lease->block)->id == pool)
                        n_bytes += lease->block->bin->n_bytes;
        }
        return n_bytes;
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
