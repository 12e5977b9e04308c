#include "daemon/policy/objects/free_all.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/policy/objects/block.h"
#include "daemon/policy/objects/lease.h"
#include "daemon/policy/state/action_queue.h"

static void take_block(struct free_all *free_all, struct block *block)
{
        free_all->n_bytes += block->bin->n_bytes;
        free_all->n_blocks++;
        block->free_all = free_all;
        LIST_INSERT_HEAD(&free_all->unreleased, block, free_all_link);
        block_release(block);
}

static void take_pool(struct free_all *free_all, struct pool *pool, enum policy_scope scope)
{
        struct holding *holding = &free_all->client->tenant->holdings[pool->id];
        struct block *block, *next;

        while ((block = scope == SCOPE_NODE ? TAILQ_FIRST(&pool->cached)
                                            : TAILQ_FIRST(&holding->cached)))
                take_block(free_all, block);
        for (block = scope == SCOPE_NODE ? TAILQ_FIRST(&pool->leased)
                                         : TAILQ_FIRST(&holding->leased);
             block; block = next) {
                next = scope == SCOPE_NODE ? TAILQ_NEXT(block, pool_age_link)
                                           : TAILQ_NEXT(block, holding_link);
                pool->policy->n_free_scans++;
                if (lease_revoke(TAILQ_FIRST(&block->leases)))
                        take_block(free_all, block);
        }
}

static void answer_if_done(struct free_all *free_all)
{
        if (LIST_EMPTY(&free_all->unreleased))
                action_push(&free_all->client->policy->actions, &free_all->action, ACTION_FREED);
}

static struct free_all *begin(struct client *client, uint32_t serial, uint32_t pool)
{
        struct free_all *free_all = calloc(1, sizeof(*free_all));

        if (!free_all)
                return NULL;
        free_all->client = client;
        free_all->serial = serial;
        free_all->pool = pool;
        LIST_INSERT_HEAD(&client->free_alls, free_all, client_link);
        return free_all;
}

int free_all_new(struct client *client, uint32_t serial, uint32_t pool, enum policy_scope scope)
{
        struct free_all *free_all = begin(client, serial, pool);
        struct policy *policy = client->policy;

        if (!free_all)
                return -ENOMEM;
        free_all->of_others = scope == SCOPE_NODE;
        for (uint32_t i = 0; i < policy->n_pools; i++) {
                if (pool == POLICY_ALL_POOLS || pool == i)
                        take_pool(free_all, policy->pools[i], scope);
        }
        answer_if_done(free_all);
        return 0;
}

static void take_cached(struct free_all *free_all, struct tenant *tenant)
{
        struct block *block;

        for (uint32_t i = 0; i < tenant->n_holdings; i++) {
                while ((block = TAILQ_FIRST(&tenant->holdings[i].cached)))
                        take_block(free_all, block);
        }
}

static void take_idle(struct free_all *free_all, struct pool *pool,
                      bool (*is_chosen)(const struct tenant_key *key, const void *argument),
                      const void *argument)
{
        struct block *block, *next;

        for (block = TAILQ_FIRST(&pool->leased); block; block = next) {
                next = TAILQ_NEXT(block, pool_age_link);
                if (is_chosen(&block->holding->tenant->key, argument) &&
                    lease_revoke(TAILQ_FIRST(&block->leases)))
                        take_block(free_all, block);
        }
}

int free_all_of(struct client *client, uint32_t serial,
                bool (*is_chosen)(const struct tenant_key *key, const void *argument),
                const void *argument, uint64_t *ret_n_blocks)
{
        struct free_all *free_all = begin(client, serial, POLICY_ALL_POOLS);
        struct policy *policy = client->policy;
        struct tenant *tenant;

        if (!free_all)
                return -ENOMEM;
        free_all->of_others = true;
        for (tenant = policy->tenants; tenant; tenant = tenant->hh.next) {
                if (is_chosen(&tenant->key, argument))
                        take_cached(free_all, tenant);
        }
        for (uint32_t i = 0; i < policy->n_pools; i++)
                take_idle(free_all, policy->pools[i], is_chosen, argument);
        *ret_n_blocks = free_all->n_blocks;
        answer_if_done(free_all);
        return 0;
}

static void forget_block(struct block *block)
{
        if (block->state == BLOCK_LINGERING)
                block_its_pool(block)->n_awaited--;
        LIST_REMOVE(block, free_all_link);
        block->free_all = NULL;
}

struct free_all *free_all_free(struct free_all *free_all)
{
        if (!free_all)
                return NULL;
        while (!LIST_EMPTY(&free_all->unreleased))
                forget_block(LIST_FIRST(&free_all->unreleased));
        action_withdraw(&free_all->action);
        LIST_REMOVE(free_all, client_link);
        free(free_all);
        return NULL;
}

void free_all_released(struct block *block)
{
        struct free_all *free_all = block->free_all;

        if (!free_all)
                return;
        forget_block(block);
        answer_if_done(free_all);
}

void free_all_lingers(struct block *block)
{
        if (!block->free_all)
                return;
        block_its_pool(block)->n_awaited++;
        if (block_is_kept(block) || block->unmap_timed_out)
                free_all_stays(block);
}

void free_all_stays(struct block *block)
{
        struct free_all *free_all = block->free_all;

        if (!free_all)
                return;
        free_all->n_bytes -= block->bin->n_bytes;
        free_all->n_blocks--;
        forget_block(block);
        answer_if_done(free_all);
}
