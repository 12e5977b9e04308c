/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/objects/release_all.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/policy/objects/block.h"
#include "daemon/policy/objects/lease.h"
#include "daemon/policy/state/action_queue.h"

static void take_block(struct release_all *release_all, struct block *block)
{
        release_all->n_bytes += block->bin->n_bytes;
        release_all->n_blocks++;
        block->release_all = release_all;
        LIST_INSERT_HEAD(&release_all->unreleased, block, release_all_link);
        block_release(block);
}

static void take_pool(struct release_all *release_all, struct pool *pool, enum policy_scope scope)
{
        struct holding *holding = &release_all->client->tenant->holdings[pool->id];
        struct block *block, *next;

        while ((block = scope == SCOPE_NODE ? TAILQ_FIRST(&pool->cached)
                                            : TAILQ_FIRST(&holding->cached)))
                take_block(release_all, block);
        for (block = scope == SCOPE_NODE ? TAILQ_FIRST(&pool->leased)
                                         : TAILQ_FIRST(&holding->leased);
             block; block = next) {
                next = scope == SCOPE_NODE ? TAILQ_NEXT(block, pool_age_link)
                                           : TAILQ_NEXT(block, holding_link);
                if (lease_revoke(TAILQ_FIRST(&block->leases)))
                        take_block(release_all, block);
        }
}

static void answer_if_done(struct release_all *release_all)
{
        if (LIST_EMPTY(&release_all->unreleased))
                action_push(&release_all->client->policy->actions, &release_all->action,
                            ACTION_FREED);
}

static struct release_all *begin(struct client *client, uint32_t serial, uint32_t pool)
{
        struct release_all *release_all = calloc(1, sizeof(*release_all));

        if (!release_all)
                return NULL;
        release_all->client = client;
        release_all->serial = serial;
        release_all->pool = pool;
        LIST_INSERT_HEAD(&client->release_alls, release_all, client_link);
        return release_all;
}

int release_all_new(struct client *client, uint32_t serial, uint32_t pool, enum policy_scope scope)
{
        struct release_all *release_all = begin(client, serial, pool);
        struct policy *policy = client->policy;

        if (!release_all)
                return -ENOMEM;
        release_all->of_others = scope == SCOPE_NODE;
        for (uint32_t i = 0; i < policy->n_pools; i++) {
                if (pool == POLICY_ALL_POOLS || pool == i)
                        take_pool(release_all, policy->pools[i], scope);
        }
        answer_if_done(release_all);
        return 0;
}

static void take_cached(struct release_all *release_all, struct tenant *tenant)
{
        struct block *block;

        for (uint32_t i = 0; i < tenant->n_holdings; i++) {
                while ((block = TAILQ_FIRST(&tenant->holdings[i].cached)))
                        take_block(release_all, block);
        }
}

static void take_idle(struct release_all *release_all, struct pool *pool,
                      bool (*is_chosen)(const struct tenant_key *key, const void *argument),
                      const void *argument)
{
        struct block *block, *next;

        for (block = TAILQ_FIRST(&pool->leased); block; block = next) {
                next = TAILQ_NEXT(block, pool_age_link);
                if (is_chosen(&block->holding->tenant->key, argument) &&
                    lease_revoke(TAILQ_FIRST(&block->leases)))
                        take_block(release_all, block);
        }
}

int release_all_of(struct client *client, uint32_t serial,
                   bool (*is_chosen)(const struct tenant_key *key, const void *argument),
                   const void *argument, uint64_t *ret_n_blocks)
{
        struct release_all *release_all = begin(client, serial, POLICY_ALL_POOLS);
        struct policy *policy = client->policy;
        struct tenant *tenant;

        if (!release_all)
                return -ENOMEM;
        release_all->of_others = true;
        for (tenant = policy->tenants; tenant; tenant = tenant->hh.next) {
                if (is_chosen(&tenant->key, argument))
                        take_cached(release_all, tenant);
        }
        for (uint32_t i = 0; i < policy->n_pools; i++)
                take_idle(release_all, policy->pools[i], is_chosen, argument);
        *ret_n_blocks = release_all->n_blocks;
        answer_if_done(release_all);
        return 0;
}

static void forget_block(struct block *block)
{
        if (block->state == BLOCK_LINGERING)
                block_its_pool(block)->n_awaited--;
        LIST_REMOVE(block, release_all_link);
        block->release_all = NULL;
}

struct release_all *release_all_free(struct release_all *release_all)
{
        if (!release_all)
                return NULL;
        while (!LIST_EMPTY(&release_all->unreleased))
                forget_block(LIST_FIRST(&release_all->unreleased));
        action_withdraw(&release_all->action);
        LIST_REMOVE(release_all, client_link);
        free(release_all);
        return NULL;
}

void release_all_released(struct block *block)
{
        struct release_all *release_all = block->release_all;

        if (!release_all)
                return;
        forget_block(block);
        answer_if_done(release_all);
}

void release_all_lingers(struct block *block)
{
        if (!block->release_all)
                return;
        block_its_pool(block)->n_awaited++;
        if (block_is_kept(block) || block->unmap_timed_out)
                release_all_stays(block);
}

void release_all_stays(struct block *block)
{
        struct release_all *release_all = block->release_all;

        if (!release_all)
                return;
        release_all->n_bytes -= block->bin->n_bytes;
        release_all->n_blocks--;
        forget_block(block);
        answer_if_done(release_all);
}
