/* SPDX-License-Identifier: Apache-2.0 */
/* The part of policy_check() for tenants and clients. */

#include <assert.h>
#include <string.h>

#include "daemon/policy/accounting/charge.h"
#include "daemon/policy/accounting/quota.h"
#include "daemon/policy/check/check.h"
#include "daemon/policy/objects/block.h"
#include "daemon/policy/objects/client.h"
#include "daemon/policy/objects/tenant.h"
#include "daemon/policy/state/action_queue.h"
#include "daemon/policy/state/slot_set.h"

uint64_t check_declared(const struct pool *pool, const struct tenant *tenant)
{
        const struct client *client;
        uint64_t n_bytes = 0;

        LIST_FOREACH (client, &pool->policy->clients, link) {
                if (!tenant || client->tenant == tenant)
                        n_bytes += client->declared[pool->id].n_bytes;
        }
        return n_bytes;
}

static uint64_t count_refs(const struct pool *pool, const struct bin *bin)
{
        const struct block *block;
        uint64_t n_refs = 0;

        LIST_FOREACH (block, &pool->blocks, pool_link)
                n_refs += block->bin == bin;
        return n_refs;
}

/* Returns the cached bytes of the bin. */
static uint64_t check_bin(const struct holding *holding, const struct bin *bin)
{
        const struct block *block;
        uint64_t n_bytes = 0, last = UINT64_MAX;

        assert(bin->n_refs > 0 && bin->n_refs == count_refs(holding->pool, bin));
        TAILQ_FOREACH (block, &bin->sides[BIN_CACHED], bin_link) {
                assert(block->bin == bin && block->state == BLOCK_CACHED);
                assert(block->cached_at < last);
                last = block->cached_at;
                n_bytes += bin->n_bytes;
        }
        return n_bytes;
}

/* Returns the number of charged blocks, which must have the order of the other list. */
static uint64_t check_charged_of(const struct bin *bin)
{
        const struct block *block, *charged = TAILQ_FIRST(&bin->charged);
        uint64_t n = 0;

        TAILQ_FOREACH (block, &bin->sides[BIN_CACHED], bin_link) {
                if (!block->charge.client)
                        continue;
                assert(block == charged);
                charged = TAILQ_NEXT(charged, charged_link);
                n++;
        }
        assert(!charged);
        return n;
}

/* Returns the number of blocks in the bin that may be idle. */
static uint64_t check_leased_of(const struct bin *bin)
{
        const struct block *block;
        uint64_t n = 0;

        TAILQ_FOREACH (block, &bin->sides[BIN_LEASED], bin_link) {
                assert(block->bin == bin && block_may_be_idle(block));
                n++;
        }
        return n;
}

static uint64_t count_leased(const struct holding *holding)
{
        const struct block *block;
        uint64_t n = 0, n_listed = 0;

        TAILQ_FOREACH (block, &holding->leased, holding_link)
                n_listed++;
        LIST_FOREACH (block, &holding->pool->blocks, pool_link)
                n += block->holding == holding && block_may_be_idle(block);
        assert(n == n_listed);
        return n;
}

static void check_bins(const struct holding *holding)
{
        const struct bins *bins = &holding->bins;
        uint64_t n_bytes = 0, n_leased = 0, n_charged = 0;

        for (unsigned class = 0; class < SIZE_N_CLASSES; class ++) {
                const struct bin *bin;
                uint64_t n_class_bytes = 0, n_class_leased = 0, last = 0;

                TAILQ_FOREACH (bin, &bins->classes[class], class_link) {
                        assert(size_class(bin->n_bytes) == class && bin->n_bytes >= last);
                        last = bin->n_bytes;
                        n_class_bytes += check_bin(holding, bin);
                        n_class_leased += check_leased_of(bin);
                        n_charged += check_charged_of(bin);
                }
                assert(bitmap_test(&bins->occupied[BIN_CACHED], class) == (n_class_bytes > 0));
                assert(bitmap_test(&bins->occupied[BIN_LEASED], class) == (n_class_leased > 0));
                n_bytes += n_class_bytes;
                n_leased += n_class_leased;
        }
        for (unsigned side = 0; side < BIN_N_SIDES; side++)
                assert(bitmap_is_sound(&bins->occupied[side]));
        assert(n_bytes == holding->totals.evictable + holding->totals.mapped_cached +
                                  holding->totals.kept_cached);
        assert(n_leased == count_leased(holding));
        assert(n_charged == bins->n_charged);
}

static void check_oldest_first(const struct holding *holding)
{
        const struct block *block;
        uint64_t n_bytes = 0, last = 0;
        bool has_next = !holding->evict_next;

        TAILQ_FOREACH (block, &holding->cached, holding_link) {
                has_next = has_next || block == holding->evict_next;
                assert(block->state == BLOCK_CACHED && block->holding == holding);
                assert(block->cached_at > last);
                last = block->cached_at;
                n_bytes += block->bin->n_bytes;
        }
        assert(has_next);
        assert(n_bytes == holding->totals.evictable + holding->totals.mapped_cached +
                                  holding->totals.kept_cached);
}

static void check_holding(const struct holding *holding)
{
        struct totals totals = {0};
        const struct block *block;
        uint64_t n_charged_bytes = 0, n_seen_bytes = 0;

        LIST_FOREACH (block, &holding->pool->blocks, pool_link) {
                if (block->holding == holding && block->seen_idle)
                        n_seen_bytes += block->bin->n_bytes;
                if (block->charge.client && block->charge.client->tenant == holding->tenant)
                        n_charged_bytes += block->bin->n_bytes;
                if (block->holding == holding)
                        block_count(block, &totals);
        }
        assert(memcmp(&totals, &holding->totals, sizeof(totals)) == 0);
        assert(check_declared(holding->pool, holding->tenant) == holding->declared);
        n_charged_bytes += holding->declared;
        assert(n_charged_bytes == holding->charged);
        assert(n_seen_bytes == holding->seen_idle_bytes);
        ranking_check(&holding->by_charge);
        for (unsigned kind = 0; kind < EVICT_N_KINDS; kind++)
                assert(holding->cached_sums[kind].n_bytes ==
                       (totals_cached_of(&totals, kind) ? totals.cached : 0));
        assert(totals_reserved(&totals) <= holding->reserved_peak);
        check_bins(holding);
        check_oldest_first(holding);
}

static void check_cached(const struct owner *owner, uint32_t pool, enum evict_kind kind)
{
        const struct owned *owned = &owner->owned[pool];
        uint64_t n_holdings = 0;
        const struct tenant *tenant;

        TAILQ_FOREACH (tenant, &owner->tenants, owner_link)
                n_holdings += totals_cached_of(&tenant->holdings[pool].totals, kind) > 0;
        ranking_check(&owned->by_cached[kind]);
        assert(owned->by_cached[kind].n_sums == n_holdings);
        assert(owned->cached_sums[kind].n_bytes == (n_holdings ? owned->cached : 0));
}

static void check_owned(const struct owner *owner)
{
        for (uint32_t i = 0; i < owner->policy->n_pools; i++) {
                struct owned owned = {.n_open = 0};
                uint64_t n_cached_bytes = 0;
                const struct tenant *tenant;

                TAILQ_FOREACH (tenant, &owner->tenants, owner_link) {
                        owned.n_open += tenant->holdings[i].totals.n_open;
                        owned.n_closing += tenant->holdings[i].totals.n_closing;
                        n_cached_bytes += tenant->holdings[i].totals.cached;
                }
                assert(owned.n_open == owner->owned[i].n_open);
                assert(owned.n_closing == owner->owned[i].n_closing);
                assert(n_cached_bytes == owner->owned[i].cached);
                for (unsigned kind = 0; kind < EVICT_N_KINDS; kind++)
                        check_cached(owner, i, kind);
        }
}

static uint32_t count_making(const struct holding *holding)
{
        const struct request *request;
        uint32_t n = 0;

        TAILQ_FOREACH (request, &holding->waiting, queue_link)
                n += request->state == REQUEST_CREATING;
        return n;
}

static void check_owner(const struct owner *owner)
{
        uint32_t n_tenants = 0, n_waiting = 0, n_first = 0, n_making = 0, n_with_blocks = 0;
        const struct tenant *tenant;

        TAILQ_FOREACH (tenant, &owner->tenants, owner_link) {
                uint64_t n_open = 0;

                for (uint32_t i = 0; i < tenant->n_holdings; i++) {
                        n_open += tenant->holdings[i].totals.n_open;
                        n_making += count_making(&tenant->holdings[i]);
                }
                assert(tenant->owner == owner && tenant->n_open == n_open);
                n_tenants++;
                n_waiting += tenant->n_waiting;
                n_first += tenant->has_first;
                n_with_blocks += n_open > 0;
        }
        assert(n_tenants && n_tenants == owner->n_tenants && n_waiting == owner->n_waiting);
        assert(n_first == owner->n_first && n_making == owner->n_making &&
               n_with_blocks == owner->n_with_blocks);
        check_owned(owner);
}

static void check_owners(const struct policy *policy)
{
        uint32_t n_tenants = 0, n_first = 0;
        const struct owner *owner;

        for (owner = policy->owners; owner; owner = owner->hh.next) {
                check_owner(owner);
                n_tenants += owner->n_tenants;
                n_first += owner->n_first;
        }
        assert(n_tenants == HASH_COUNT(policy->tenants) && n_first == policy->n_first);
}

void check_tenants(const struct policy *policy)
{
        const struct tenant *tenant;
        uint64_t n_all_waiting = 0;

        for (tenant = policy->tenants; tenant; tenant = tenant->hh.next) {
                const struct client *client;
                uint64_t n_refs = 0, n_waiting = 0;

                assert(tenant->n_holdings == policy->n_pools);
                for (uint32_t i = 0; i < policy->n_pools; i++) {
                        assert(tenant->holdings[i].tenant == tenant);
                        assert(tenant->holdings[i].pool == policy->pools[i]);
                        check_holding(&tenant->holdings[i]);
                        n_refs += tenant->holdings[i].totals.n_blocks;
                }
                LIST_FOREACH (client, &policy->clients, link) {
                        n_refs += client->tenant == tenant;
                }
                for (uint32_t i = 0; i < policy->n_pools; i++) {
                        const struct request *request;

                        TAILQ_FOREACH (request, &tenant->holdings[i].waiting, queue_link)
                                n_waiting++;
                }
                n_all_waiting += n_waiting;
                assert(n_waiting == tenant->n_waiting &&
                       n_waiting <= TENANTS_MAX_WAITING / 2 + (uint64_t)tenant->has_first +
                                            CLIENT_MAX_WAITING - 1);
                assert(!tenant->has_first || n_waiting);
                assert(n_refs > 0 && n_refs == tenant->n_refs);
        }
        assert(n_all_waiting == policy->n_waiting &&
               n_all_waiting <= TENANTS_MAX_WAITING + TENANTS_FIRST +
                                        HASH_COUNT(policy->owners) * (CLIENT_MAX_WAITING - 1));
        check_owners(policy);
}

static uint32_t check_leases(const struct client *client)
{
        const struct lease *lease, *other;
        uint32_t n = 0, n_asked = 0, n_returned = 0;

        TAILQ_FOREACH (lease, &client->leases, client_link) {
                assert(lease->client == client && lease->id != 0 && lease->id >> 56 == 0);
                assert(lease->id <= client->policy->last_lease_id);
                assert(slot_set_is_taken(&client->slots, lease->slot));
                assert(!lease->block == (lease->state == LEASE_ASKED));
                for (other = TAILQ_NEXT(lease, client_link); other;
                     other = TAILQ_NEXT(other, client_link))
                        assert(other->slot != lease->slot && other->id != lease->id);
                n_asked += lease->state == LEASE_ASKED;
                n_returned += lease->state == LEASE_RETURNED;
                n++;
        }
        LIST_FOREACH (lease, &client->returned, returned_link) {
                assert(lease->client == client && lease->state == LEASE_RETURNED);
                n_returned--;
        }
        assert(n == client->slots.n_taken && n_returned == 0);
        return n_asked;
}

/* The group that a request leads, and its sums. */
static void check_group(const struct request *request)
{
        const struct request *part;
        uint32_t n_parts = 1;
        uint64_t n_bytes = request->n_bytes;

        TAILQ_FOREACH (part, &request->client->requests, client_link) {
                if (part->state != REQUEST_PART || part->leader != request)
                        continue;
                assert(part->pool == request->pool && part->in_group);
                n_parts++;
                n_bytes += part->n_bytes;
        }
        assert(request->n_parts == n_parts && request->n_all_bytes == n_bytes);
        assert(request->in_group || n_parts == 1);
        assert(n_parts == 1 || request->state == REQUEST_WAITING);
        assert(!request->leader || request->state == REQUEST_PART);
        assert(request->n_to_make <= n_parts && request->n_room_bytes <= n_bytes);
        if (request->state == REQUEST_PART && !request->leader)
                assert(request->client->gathers);
}

static uint32_t check_requests(const struct client *client)
{
        const struct request *request, *other;
        uint32_t n_unanswered = 0;

        TAILQ_FOREACH (request, &client->requests, client_link) {
                assert(request->client == client && request->state != REQUEST_NEW);
                assert(!request->block == (request->state != REQUEST_CREATING));
                assert(!request->lease == (request->state == REQUEST_REFUSED));
                if (request->state == REQUEST_REFUSED)
                        continue;
                assert(request->lease->state == LEASE_ASKED && request->lease->client == client);
                assert(request->lease->serial == request->refusal.serial);
                check_group(request);
                n_unanswered++;
                for (other = TAILQ_NEXT(request, client_link); other;
                     other = TAILQ_NEXT(other, client_link))
                        assert(other->state == REQUEST_REFUSED ||
                               other->refusal.serial != request->refusal.serial);
        }
        assert(n_unanswered == client->n_waiting && n_unanswered <= CLIENT_MAX_WAITING);
        return n_unanswered;
}

static void add_usage(struct usage *usage, const struct charge *charge, const struct client *client,
                      const struct tenant *tenant)
{
        if (charge->client && (charge->client == client || charge->client->tenant == tenant))
                usage_add(usage, charge->pool->settings.kind, charge->n_bytes);
}

static struct usage derive_usage(const struct policy *policy, const struct client *client,
                                 const struct tenant *tenant)
{
        struct usage usage = {{0}};

        for (uint32_t i = 0; i < policy->n_pools; i++) {
                const struct client *declarer;
                const struct block *block;

                LIST_FOREACH (block, &policy->pools[i]->blocks, pool_link)
                        add_usage(&usage, &block->charge, client, tenant);
                LIST_FOREACH (declarer, &policy->clients, link)
                        add_usage(&usage, &declarer->declared[i], client, tenant);
        }
        return usage;
}

static struct usage derive_kept(const struct policy *policy, const struct client *client,
                                const struct tenant *tenant)
{
        struct usage usage = {{0}};

        for (uint32_t i = 0; i < policy->n_pools; i++) {
                const struct block *block;

                LIST_FOREACH (block, &policy->pools[i]->blocks, pool_link) {
                        if (block->state == BLOCK_CACHED)
                                add_usage(&usage, &block->charge, client, tenant);
                }
        }
        return usage;
}

static struct usage derive_shared_usage(const struct policy *policy, const struct client *client,
                                        const struct tenant *tenant)
{
        struct usage usage = {{0}};
        const struct client *other;
        const struct lease *lease;

        LIST_FOREACH (other, &policy->clients, link) {
                TAILQ_FOREACH (lease, &other->leases, client_link) {
                        if ((client == other && lease->counts_for_client) ||
                            (tenant == other->tenant && lease->counts_for_tenant))
                                usage_add(&usage, lease->block->pool->settings.kind,
                                          lease->block->bin->n_bytes);
                }
        }
        return usage;
}

static void check_usages(const struct client *client)
{
        struct usage own = derive_usage(client->policy, client, NULL);
        struct usage tenants = derive_usage(client->policy, NULL, client->tenant);
        struct usage shared = derive_shared_usage(client->policy, client, NULL);
        struct usage tenants_shared = derive_shared_usage(client->policy, NULL, client->tenant);
        struct usage kept = derive_kept(client->policy, client, NULL);
        struct usage tenants_kept = derive_kept(client->policy, NULL, client->tenant);

        assert(memcmp(&kept, &client->kept, sizeof(kept)) == 0);
        assert(memcmp(&tenants_kept, &client->tenant->kept, sizeof(kept)) == 0);
        assert(memcmp(&shared, &client->shared_usage, sizeof(shared)) == 0);
        assert(memcmp(&tenants_shared, &client->tenant->shared_usage, sizeof(shared)) == 0);
        assert(memcmp(&own, &client->usage, sizeof(own)) == 0);
        assert(memcmp(&tenants, &client->tenant->usage, sizeof(tenants)) == 0);
}

static uint64_t derive_attached(const struct client *client, uint32_t pool)
{
        const struct lease *lease;
        uint64_t n_bytes = 0;

        TAILQ_FOREACH (lease, &client->leases, client_link) {
                if (lease->state == LEASE_BUSY && lease->block->charge.client != client &&
                    lease->block->pool->id == pool)
                        n_bytes += lease->block->bin->n_bytes;
        }
        return n_bytes;
}

static void check_charges(const struct client *client)
{
        uint64_t n_declared_bytes = 0;

        for (uint32_t i = 0; i < client->policy->n_pools; i++) {
                const struct block *block;
                const struct charge *declared = &client->declared[i];
                uint64_t n_bytes = declared->n_bytes;

                assert(declared->client == (declared->n_bytes ? client : NULL));
                n_declared_bytes += declared->n_bytes;
                LIST_FOREACH (block, &client->policy->pools[i]->blocks, pool_link)
                        n_bytes += block->charge.client == client ? block->bin->n_bytes : 0;
                assert(n_bytes == charge_sum_bytes(&client->sums[i]));
                assert(derive_attached(client, i) == client->sums[i].n_attached_bytes);
        }
        assert(n_declared_bytes <= client->n_held_bytes);
}

/* Counts the keeps that have not begun, if the client is the tenant's keeper. */
static uint32_t check_keeps(const struct client *client)
{
        const struct lease *lease;
        uint32_t n_busy = 0;

        if (client != client->tenant->keeper)
                return 0;
        assert(!client->owner && !client->words && !client->is_ending);
        TAILQ_FOREACH (lease, &client->leases, client_link)
                n_busy += lease->state == LEASE_BUSY;
        assert(client->tenant->n_keeps == client->slots.n_taken && client->tenant->n_keeps > 0);
        return client->tenant->n_keeps - n_busy;
}

static void check_dropped(const struct client *client)
{
        const struct lease *lease;

        assert(!client->eof || !client->dead);
        assert(TAILQ_EMPTY(&client->requests) && LIST_EMPTY(&client->release_alls));
        TAILQ_FOREACH (lease, &client->leases, client_link)
                assert(lease->state == LEASE_RETURNED && !action_is_queued(&lease->action));
}

void check_clients(const struct policy *policy)
{
        const struct client *client;

        LIST_FOREACH (client, &policy->clients, link) {
                uint32_t n_asked = check_leases(client);

                assert(client->policy == policy);
                assert(check_requests(client) + check_keeps(client) == n_asked);
                check_charges(client);
                check_usages(client);
                if (client->is_ending && !client->next_to_drop && LIST_EMPTY(&client->release_alls))
                        check_dropped(client);
        }
}
