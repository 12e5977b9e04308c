/* SPDX-License-Identifier: Apache-2.0 */
/* Sums and charges, once no action is left. */
#include "tests/model/policy_model_compare.h"

#include <limits.h>

#include "daemon/policy/drain.h"
#include "daemon/policy/objects/unmap_timeout.h"
#include "daemon/policy/aging.h"

static uint64_t n_users(const struct model_block *block)
{
        const struct model_lease *lease;
        uint64_t n = 0;

        TAILQ_FOREACH (lease, &block->leases, block_link)
                n += lease->busy;
        return n;
}

bool model_is_expected(const struct model_block *block)
{
        return model_is_mapped(block) &&
               (block->state == MODEL_RELEASING || block->state == MODEL_LINGERING);
}

/* Since the queues were walked last nothing was released so long ago. */
bool model_is_timed_out(const struct model *model, const struct model_block *block)
{
        return model_is_expected(block) && model->now_ns >= block->release_ns + UNMAP_TIMEOUT_NS;
}

static void compare_stats(struct model *model, uint32_t pool)
{
        const struct model_pool *expected = &model->pools[pool];
        const struct model_block *block;
        const struct model_request *request;
        struct pool_stats stats, sum = {0};

        must(model, policy_pool_stats(model->policy, pool, &stats) == 0);
        LIST_FOREACH (block, &model->blocks, link) {
                if (block->pool != pool)
                        continue;
                sum.n_blocks++;
                sum.n_leases += n_users(block);
                if (block->state == MODEL_MAKING || block->state == MODEL_HELD)
                        sum.leased += block->n_bytes;
                else if (block->state == MODEL_CREATING_FOR_CACHE || block->state == MODEL_CACHED)
                        sum.cached += block->n_bytes;
                else
                        sum.lingering += block->n_bytes;
                sum.timed_out += model_is_timed_out(model, block) ? block->n_bytes : 0;
                must(model, block->state != MODEL_MADE);
                must(model, block->state != MODEL_RELEASING || block->release_given);
        }
        TAILQ_FOREACH (request, &model->requests, link)
                sum.n_waiting += request->ask.pool == pool;
        must(model, stats.max == expected->max_bytes);
        must(model, stats.leased == sum.leased);
        must(model, stats.cached == sum.cached);
        must(model, stats.lingering == sum.lingering);
        must(model, stats.reserved == sum.leased + sum.cached + sum.lingering);
        must(model, stats.reserved <= stats.reserved_peak);
        must(model, stats.reserved <= stats.max || stats.reserved <= expected->max_since ||
                            stats.reserved <= expected->last_reserved);
        must(model, stats.n_blocks == sum.n_blocks && stats.n_leases == sum.n_leases);
        must(model, stats.n_waiting == sum.n_waiting);
        must(model, stats.n_creates == expected->n_creates);
        must(model, stats.n_releases == expected->n_releases);
        if (model->kind == MODEL_LAZY)
                return;
        must(model, stats.timed_out == sum.timed_out);
        model->n_timed_out += sum.timed_out > 0;
        must(model, stats.n_refusals == expected->n_refusals);
        must(model, stats.n_aged == expected->n_aged);
        must(model, stats.n_grants_from_cache == expected->n_grants_from_cache);
}

static void compare_idle(const struct model *model, uint32_t pool)
{
        const struct model_block *block;
        uint64_t n_idle_bytes = 0;

        LIST_FOREACH (block, &model->blocks, link) {
                if (block->pool == pool && block->state == MODEL_HELD &&
                    model_is_idle(TAILQ_FIRST(&block->leases)))
                        n_idle_bytes += block->n_bytes;
        }
        must(model, policy_idle_bytes(model->policy, pool) == n_idle_bytes);
}

static void compare_peaks(struct model *model, uint32_t pool)
{
        struct model_pool *expected = &model->pools[pool];
        struct pool_stats stats;

        must(model, policy_pool_stats(model->policy, pool, &stats) == 0);
        must(model, stats.leased <= stats.leased_peak && stats.leased_peak <= stats.reserved_peak);
        must(model, stats.cached <= stats.cached_peak && stats.cached_peak <= stats.reserved_peak);
        must(model, expected->leased_peak <= stats.leased_peak);
        must(model, expected->cached_peak <= stats.cached_peak);
        expected->leased_peak = stats.leased_peak;
        expected->cached_peak = stats.cached_peak;
}

/* Whose revoked block is wanted back has been told so. */
static void check_recalled(struct model *model)
{
        const struct model_client *client;
        const struct model_lease *lease;

        LIST_FOREACH (client, &model->clients, link) {
                LIST_FOREACH (lease, &client->leases, client_link) {
                        const struct model_block *block = lease->block;

                        if (lease->revoked && model_speaks(client) &&
                            (block->state == MODEL_RELEASING || block->state == MODEL_LINGERING))
                                must(model, lease->recalled);
                }
        }
}

/* Who has had it last of those that do not unmap it, or gave it back and have not said that they did. */
static const struct model_client *mapper_that_is_charged(const struct model_block *block)
{
        const struct model_lease *lease;

        TAILQ_FOREACH (lease, &block->leases, block_link) {
                if (lease->keeps_mapped || (!lease->busy && !lease->revoked))
                        return lease->client;
        }
        return NULL;
}

/* The one it is made for, the one who holds it longest, or who may still map it. */
const struct model_client *model_charge_owner(const struct model_block *block)
{
        switch (block->state) {
        case MODEL_MAKING:
                return block->request->client;
        case MODEL_HELD:
                return model_oldest_user(block);
        case MODEL_RELEASING:
        case MODEL_LINGERING:
                return model_is_mapped(block) ? TAILQ_FIRST(&block->leases)->client : NULL;
        case MODEL_CACHED:
                return mapper_that_is_charged(block);
        case MODEL_CREATING_FOR_CACHE:
        case MODEL_MADE:
                break;
        }
        return NULL;
}

/* What is held in all pools together is what a daemon that ends waits for. */
static void compare_held(struct model *model)
{
        struct pool_stats stats;
        uint64_t n_bytes = 0;

        for (uint32_t i = 0; i < MODEL_N_POOLS; i++) {
                must(model, policy_pool_stats(model->policy, i, &stats) == 0);
                n_bytes += stats.charged;
        }
        must(model, policy_held_bytes(model->policy) == n_bytes);
}

/* Where no scan is due, none would ever release anything. */
static void check_scans_are_due(struct model *model)
{
        const struct model_block *block;
        bool any_over = false;

        for (uint32_t i = 0; i < MODEL_N_POOLS; i++) {
                bool any_leased = model_n_candidates(model, i) &&
                                  model->pools[i].return_after_ns != POLICY_KEEP_FOR_EVER;

                must(model, !any_leased || policy_ages(model->policy));
                any_over = any_over || any_leased || model_over(model, i);
        }
        if (policy_ages(model->policy)) {
                must(model, any_over);
                return;
        }
        LIST_FOREACH (block, &model->blocks, link)
                must(model, !model_may_return(model, block));
}

static void compare_charges(struct model *model, uint32_t pool)
{
        const struct model_client *client;
        const struct model_block *block;
        struct pool_stats stats;
        uint64_t n_charged_bytes = 0;

        LIST_FOREACH (client, &model->clients, link) {
                uint64_t n_bytes = 0;

                LIST_FOREACH (block, &model->blocks, link)
                        n_bytes += block->pool == pool && model_charge_owner(block) == client
                                           ? block->n_bytes
                                           : 0;
                must(model, client_charged(client->client, pool) == n_bytes);
                n_charged_bytes += n_bytes;
        }
        must(model, policy_pool_stats(model->policy, pool, &stats) == 0);
        must(model, stats.charged == n_charged_bytes);
}

/* Above its limit a pool caches nothing. */
static void begin_anew(struct model *model, uint32_t pool)
{
        struct model_pool *expected = &model->pools[pool];
        const struct model_block *block;

        LIST_FOREACH (block, &model->blocks, link)
                must(model, block->pool != pool || block->state != MODEL_CACHED ||
                                    !model_excess(model, pool));
        expected->max_since = expected->max_bytes;
        expected->last_reserved = model_reserved(model, pool);
        expected->was_trimmed = false;
        expected->was_limited = false;
        expected->had_action = false;
}

static void forget_revoked(struct model *model)
{
        struct model_block *block;

        LIST_FOREACH (block, &model->blocks, link)
                block->was_idle = false;
        model->revoked = false;
}

/* The policy counts idle bytes as its last look found them. */
static void look_at_all_words(const struct model *model)
{
        struct numbered_walk walk = {.next = 0};

        numbered_go_on(&walk, UINT_MAX);
        while (policy_next_block(model->policy, &walk))
                continue;
}

void model_compare(struct model *model)
{
        must(model, model->settled);
        look_at_all_words(model);
        for (uint32_t i = 0; i < MODEL_N_POOLS; i++) {
                compare_stats(model, i);
                compare_idle(model, i);
                compare_peaks(model, i);
                compare_charges(model, i);
        }
        compare_held(model);
        check_scans_are_due(model);
        model_check_waiting(model);
        if (model->kind == MODEL_EXACT && !model->said && !model->unserved)
                model_check_no_deadlock(model);
        model_check_evictions(model);
        check_recalled(model);
        forget_revoked(model);
        for (uint32_t i = 0; i < MODEL_N_POOLS; i++)
                begin_anew(model, i);
}
