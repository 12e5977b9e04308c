/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/scheduling/revoke_idle.h"

#include "daemon/policy/accounting/charge.h"
#include "daemon/policy/accounting/quota.h"
#include "daemon/policy/objects/block.h"
#include "daemon/policy/objects/lease.h"
#include "daemon/policy/state/bins.h"
#include "daemon/policy/state/walk_part.h"

static struct lease *lease_of(const struct block *block)
{
        return TAILQ_FIRST(&block->leases);
}

static bool is_within_limit(const struct client *client, const struct bin *bin,
                            const struct pool *pool)
{
        const struct usage nothing = {{0}};

        return !quota_bars(client, LIMIT_OF_CLIENT, pool, bin->n_bytes, &nothing);
}

static bool would_go_back(const struct block *block, const struct scan_budget *budget)
{
        return !budget->back_too && block->taken_from == budget->asker->number &&
               budget->asker->policy->now_ns < block->taken_ns + REVOKE_IDLE_BACK_NS;
}

bool revoke_idle_is_allowed(const struct block *block, const struct client *client)
{
        return block_may_be_idle(block) && lease_of(block)->client != client &&
               lease_is_idle(lease_of(block)) && is_within_limit(client, block->bin, block->pool);
}

bool revoke_idle_try(struct block *block)
{
        const struct client *holder = lease_of(block)->client;

        if (!lease_revoke(lease_of(block)))
                return false;
        block->taken_from = holder->number;
        block->taken_ns = holder->policy->now_ns;
        block_return_to_cache(block);
        return block->state == BLOCK_CACHED;
}

/* Most that a search meets are in use, as their words say: what else it would look at is seldom in the CPU's cache. */
static struct block *revoke_in(struct bin *bin, const struct client *asker,
                               struct scan_budget *budget)
{
        struct bin_blocks *blocks = &bin->sides[BIN_LEASED];
        const struct block *last = TAILQ_LAST(blocks, bin_blocks);
        struct block *block, *next;
        bool was_last = false;

        for (block = TAILQ_FIRST(blocks); block && !was_last && budget->n_left; block = next) {
                next = TAILQ_NEXT(block, bin_link);
                was_last = block == last;
                budget->n_left--;
                if (block_is_said_idle(block) && lease_of(block)->client != asker &&
                    !would_go_back(block, budget) && revoke_idle_try(block))
                        return block;
                if (block_may_be_idle(block)) {
                        TAILQ_REMOVE(blocks, block, bin_link);
                        TAILQ_INSERT_TAIL(blocks, block, bin_link);
                }
        }
        return NULL;
}

struct block *revoke_idle_take_one(struct holding *holding, const struct client *asker,
                                   const struct bin_range *range, enum revoke_idle_choice choice,
                                   struct scan_budget *budget)
{
        struct bin_range rest = *range;
        struct block *block = NULL;

        while (!block && budget->n_left && rest.n_least_bytes <= rest.n_most_bytes) {
                struct bin *bin = choice == REVOKE_IDLE_SMALLEST
                                          ? bins_find(&holding->bins, BIN_LEASED, &rest)
                                          : bins_find_last(&holding->bins, BIN_LEASED, &rest);

                if (!bin)
                        break;
                if (choice == REVOKE_IDLE_SMALLEST)
                        rest.n_least_bytes = bin->n_bytes + 1;
                else
                        rest.n_most_bytes = bin->n_bytes - 1;
                if (is_within_limit(asker, bin, holding->pool))
                        block = revoke_in(bin, asker, budget);
        }
        return block;
}

static bool is_full(const struct idle_leases *idle)
{
        return idle->n == REVOKE_IDLE_SCANS_A_REQUEST;
}

/* Adds the block's lease if it is idle. Returns whether it was added. */
static bool add_if_idle(struct idle_leases *idle, const struct block *block,
                        struct scan_budget *budget)
{
        struct lease *lease = lease_of(block);

        budget->n_left--;
        if (!lease_is_idle(lease))
                return false;
        idle->leases[idle->n++] = lease;
        idle->n_bytes += block->bin->n_bytes;
        return true;
}

void revoke_idle_add_own(struct idle_leases *idle, struct holding *holding,
                         const struct client *client, struct scan_budget *budget)
{
        struct holding_blocks *blocks = &holding->leased;
        const struct block *last = TAILQ_LAST(blocks, holding_blocks);
        struct block *block, *next;
        bool was_last = false;

        for (block = TAILQ_FIRST(blocks); block && !was_last && budget->n_left && !is_full(idle);
             block = next) {
                bool is_wanted = block_is_said_idle(block) &&
                                 (!client || lease_of(block)->client == client) &&
                                 !would_go_back(block, budget);

                next = TAILQ_NEXT(block, holding_link);
                was_last = block == last;
                if (is_wanted && add_if_idle(idle, block, budget))
                        continue;
                budget->n_left -= !is_wanted;
                TAILQ_REMOVE(blocks, block, holding_link);
                TAILQ_INSERT_TAIL(blocks, block, holding_link);
        }
}

/* A client would still be charged for it. */
static bool is_charged(const struct block *block)
{
        return charge_owner_in_cache(block);
}

static void spare(struct idle_leases *idle, bool (*is_spared)(const struct block *block))
{
        unsigned n = 0;

        for (unsigned i = 0; i < idle->n; i++) {
                struct lease *lease = idle->leases[i];

                if (is_spared(lease->block))
                        idle->n_bytes -= lease->block->bin->n_bytes;
                else
                        idle->leases[n++] = lease;
        }
        idle->n = n;
}

void revoke_idle_drop_kept(struct idle_leases *idle)
{
        spare(idle, block_is_kept);
}

/* Whether the tenant keeps its minimum without this block and those found before. */
static bool keeps_enough(const struct block *block)
{
        const struct holding *holding = block->holding;

        return holding->totals.leased >=
               holding->n_found_bytes + block->bin->n_bytes + holding->pool->settings.min_bytes;
}

static bool was_just_revoked_from(const struct holding *holding, uint64_t now_ns,
                                  const struct scan_budget *budget)
{
        return holding->was_revoked_from && now_ns < holding->revoked_ns + REVOKE_IDLE_OTHERS_NS &&
               !(budget->goes_on && holding->revoked_for == budget->request);
}

static bool may_be_revoked_from(const struct block *block, uint64_t now_ns,
                                const struct scan_budget *budget)
{
        struct holding *holding = block->holding;

        if (was_just_revoked_from(holding, now_ns, budget))
                return false;
        if (holding->search != holding->pool->n_searches) {
                holding->search = holding->pool->n_searches;
                holding->n_found_bytes = 0;
        }
        return keeps_enough(block);
}

void revoke_idle_add_others(struct idle_leases *idle, const struct holding *asker, uint64_t n_bytes,
                            uint64_t now_ns, struct scan_budget *budget)
{
        struct pool_blocks_by_age *blocks = &asker->pool->leased;
        const struct block *last = TAILQ_LAST(blocks, pool_blocks_by_age);
        struct block *block, *next;
        bool was_last = false;

        asker->pool->n_searches++;
        for (block = TAILQ_FIRST(blocks);
             block && !was_last && budget->n_left && !is_full(idle) && idle->n_bytes < n_bytes;
             block = next) {
                bool is_wanted = block_is_said_idle(block) && block->holding != asker &&
                                 !block_is_kept(block) &&
                                 may_be_revoked_from(block, now_ns, budget);

                next = TAILQ_NEXT(block, pool_age_link);
                was_last = block == last;
                if (is_wanted && add_if_idle(idle, block, budget)) {
                        block->holding->n_found_bytes += block->bin->n_bytes;
                        continue;
                }
                budget->n_left -= !is_wanted;
                TAILQ_REMOVE(blocks, block, pool_age_link);
                TAILQ_INSERT_TAIL(blocks, block, pool_age_link);
        }
}

uint64_t revoke_idle_release(const struct idle_leases *idle, const struct client *client,
                             uint64_t n_bytes)
{
        uint64_t n_gone_bytes = 0;

        for (unsigned i = 0; i < idle->n && n_gone_bytes < n_bytes; i++) {
                struct lease *lease = idle->leases[i];

                if (!lease->client->policy->n_looks_left)
                        break;
                if ((client && lease->client != client) || !lease_revoke(lease))
                        continue;
                part_count_release(lease->client->policy);
                block_release(lease->block);
                n_gone_bytes += lease->block->bin->n_bytes;
        }
        return n_gone_bytes;
}

void revoke_idle_release_others(const struct idle_leases *idle, uint64_t n_bytes, uint64_t now_ns,
                                const struct scan_budget *budget)
{
        uint64_t n_gone_bytes = 0;

        for (unsigned i = 0; i < idle->n && n_gone_bytes < n_bytes; i++) {
                struct lease *lease = idle->leases[i];
                struct holding *holding = lease->block->holding;

                if (!holding->tenant->policy->n_looks_left)
                        break;
                if (!lease_revoke(lease))
                        continue;
                part_count_release(holding->tenant->policy);
                holding->was_revoked_from = true;
                holding->revoked_ns = now_ns;
                holding->revoked_for = budget->request;
                block_release(lease->block);
                n_gone_bytes += lease->block->bin->n_bytes;
        }
}

/* Limits on bytes are for all pools of a kind, limits on leases for all pools. */
static void add_limited(struct idle_leases *idle, const struct client *client,
                        const struct pool *pool, const struct limit_hit *hit,
                        struct scan_budget *budget)
{
        struct tenant *tenant = client->tenant;

        for (uint32_t i = 0; i < tenant->n_holdings; i++) {
                struct holding *holding = &tenant->holdings[i];

                if (hit->kind == LIMIT_LEASES ||
                    holding->pool->settings.kind == pool->settings.kind)
                        revoke_idle_add_own(idle, holding,
                                            hit->scope == LIMIT_OF_CLIENT ? client : NULL, budget);
        }
}

bool revoke_idle_relieve(const struct request *request, const struct limit_hit *hit,
                         struct scan_budget *budget)
{
        bool is_count = hit->kind == LIMIT_LEASES;
        uint64_t n_asked = is_count ? request->n_parts : request->n_all_bytes;
        struct idle_leases idle = {.n = 0};
        struct limit_hit next;

        add_limited(&idle, request->client, request->pool, hit, budget);
        spare(&idle, is_charged);
        if (hit->used + n_asked - hit->max > (is_count ? idle.n : idle.n_bytes))
                return false;
        for (unsigned i = 0; i < idle.n; i++) {
                struct block *block = idle.leases[i]->block;

                if (!quota_is_passed_by(request, &next))
                        return true;
                if (lease_revoke(idle.leases[i]))
                        block_return_to_cache(block);
        }
        return !quota_is_passed_by(request, &next);
}
