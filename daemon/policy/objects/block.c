/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/objects/block.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "daemon/policy/accounting/charge.h"
#include "daemon/policy/accounting/shared_usage.h"
#include "daemon/policy/objects/lease.h"
#include "daemon/policy/objects/owner.h"
#include "daemon/policy/objects/pool.h"
#include "daemon/policy/objects/release_all.h"
#include "daemon/policy/objects/share.h"
#include "daemon/policy/objects/tenant.h"
#include "daemon/policy/objects/unmap_timeout.h"
#include "daemon/policy/state/action_queue.h"
#include "daemon/policy/state/bins.h"
#include "proto/board.h"

static const unsigned legal_next[BLOCK_N_STATES] = {
        [BLOCK_NONE] = BIT(BLOCK_CREATING) | BIT(BLOCK_CREATING_FOR_CACHE),
        [BLOCK_CREATING] = BIT(BLOCK_NONE) | BIT(BLOCK_CREATING_FOR_CACHE) | BIT(BLOCK_LEASED),
        [BLOCK_CREATING_FOR_CACHE] = BIT(BLOCK_NONE) | BIT(BLOCK_CACHED) | BIT(BLOCK_RELEASING),
        [BLOCK_LEASED] = BIT(BLOCK_CACHED) | BIT(BLOCK_RELEASING),
        [BLOCK_CACHED] = BIT(BLOCK_LEASED) | BIT(BLOCK_RELEASING),
        [BLOCK_RELEASING] = BIT(BLOCK_NONE) | BIT(BLOCK_LINGERING),
        [BLOCK_LINGERING] = BIT(BLOCK_NONE),
};

bool block_is_mapped(const struct block *block)
{
        return !TAILQ_EMPTY(&block->leases);
}

bool block_is_kept(const struct block *block)
{
        return block->n_keeping;
}

static uint64_t *count_of_cached(const struct block *block, struct totals *totals)
{
        if (block_is_kept(block))
                return &totals->kept_cached;
        return block_is_mapped(block) ? &totals->mapped_cached : &totals->evictable;
}

/* The driver takes it, and a client that maps it unmaps it when told to, and has time left for that. */
static bool is_returning(const struct block *block)
{
        return !block->unreleasable &&
               !(block_is_mapped(block) && (block->unmap_timed_out || block_is_kept(block)));
}

void block_count(const struct block *block, struct totals *totals)
{
        uint64_t n_bytes = block->bin->n_bytes;
        bool is_mapped = block_is_mapped(block);

        switch (block->state) {
        case BLOCK_NONE:
        case BLOCK_N_STATES:
                return;
        case BLOCK_CREATING:
        case BLOCK_LEASED:
                totals->leased += n_bytes;
                totals->registered += block->bin->properties & POLICY_REGISTERED ? n_bytes : 0;
                break;
        case BLOCK_CREATING_FOR_CACHE:
                totals->cached += n_bytes;
                totals->incoming += n_bytes;
                break;
        case BLOCK_CACHED:
                totals->cached += n_bytes;
                *count_of_cached(block, totals) += n_bytes;
                break;
        case BLOCK_RELEASING:
                totals->lingering += n_bytes;
                totals->returning += is_returning(block) ? n_bytes : 0;
                if (is_mapped)
                        totals->mapped_lingering += n_bytes;
                else if (!block->unreleasable)
                        totals->incoming += n_bytes;
                totals->timed_out += is_mapped && block->unmap_timed_out ? n_bytes : 0;
                break;
        case BLOCK_LINGERING:
                totals->lingering += n_bytes;
                totals->returning += is_returning(block) ? n_bytes : 0;
                totals->mapped_lingering += n_bytes;
                totals->timed_out += block->unmap_timed_out ? n_bytes : 0;
                break;
        }
        totals->n_blocks++;
        totals->n_open += block->state != BLOCK_LINGERING && !block->unreleasable;
        totals->n_closing += block->state == BLOCK_RELEASING && !block->unreleasable;
}

/* Subtracts the block's old count from the totals and adds its new one. */
static void replace(struct totals *totals, const struct totals *before, const struct totals *after)
{
        totals->leased += after->leased - before->leased;
        totals->registered += after->registered - before->registered;
        totals->cached += after->cached - before->cached;
        totals->lingering += after->lingering - before->lingering;
        totals->evictable += after->evictable - before->evictable;
        totals->mapped_cached += after->mapped_cached - before->mapped_cached;
        totals->kept_cached += after->kept_cached - before->kept_cached;
        totals->mapped_lingering += after->mapped_lingering - before->mapped_lingering;
        totals->timed_out += after->timed_out - before->timed_out;
        totals->returning += after->returning - before->returning;
        totals->incoming += after->incoming - before->incoming;
        totals->n_blocks += after->n_blocks - before->n_blocks;
        totals->n_open += after->n_open - before->n_open;
        totals->n_closing += after->n_closing - before->n_closing;
}

static void raise(uint64_t *peak, uint64_t n_bytes)
{
        if (n_bytes > *peak)
                *peak = n_bytes;
}

static void count_in(struct holding *holding, const struct totals *before,
                     const struct totals *after)
{
        replace(&holding->totals, before, after);
        owner_count(holding, before, after);
        raise(&holding->reserved_peak, totals_reserved(&holding->totals));
}

/* Call it after every change of a field that block_count() reads, with the count from before. Who maps a leased block
 * is no such field. */
static void recount(struct block *block, const struct totals *before)
{
        struct pool *pool = block->pool;
        struct totals after = {0};

        block_count(block, &after);
        replace(&pool->totals, before, &after);
        count_in(block->holding, before, &after);
        if (after.evictable + after.mapped_cached > before->evictable + before->mapped_cached)
                pool->cache_grew = true;
        assert(totals_reserved(&pool->totals) <= pool->settings.max_bytes ||
               totals_reserved(&after) <= totals_reserved(before));
        raise(&pool->reserved_peak, totals_reserved(&pool->totals));
        raise(&pool->leased_peak, pool->totals.leased);
        raise(&pool->cached_peak, pool->totals.cached);
}

static void set_state(struct block *block, enum block_state state)
{
        struct totals before = {0};

        assert(legal_next[block->state] & BIT(state));
        block_count(block, &before);
        block->pool->policy->n_changes++;
        block->state = state;
        block->since_ns = block->pool->policy->now_ns;
        recount(block, &before);
}

bool block_may_be_idle(const struct block *block)
{
        return block->word;
}

bool block_is_said_idle(const struct block *block)
{
        return atomic_load_explicit(block->word, memory_order_relaxed) == block->idle_word;
}

static bool has_word(const struct block *block)
{
        return block->state == BLOCK_LEASED && block->n_busy &&
               !(block->bin->properties & POLICY_FRESH) &&
               TAILQ_FIRST(&block->leases)->client->words;
}

/* A cached block, and one that may be idle, is in three lists each. */
static void enlist_cached(struct block *block)
{
        struct pool *pool = block->pool;

        block->cached_at = ++pool->n_cachings;
        bin_put(block->bin, BIN_CACHED, block);
        if (block->charge.client)
                bin_put_charged(block->bin, block);
        TAILQ_INSERT_TAIL(&block->holding->cached, block, holding_link);
        TAILQ_INSERT_TAIL(&pool->cached, block, pool_age_link);
}

/* A look at all blocks goes to the word at once. */
static void enlist_leased(struct block *block)
{
        const struct lease *lease = TAILQ_FIRST(&block->leases);

        block->word = &lease->client->words[lease->slot];
        block->idle_word = board_word(lease->id, BOARD_IDLE);
        bin_put(block->bin, BIN_LEASED, block);
        TAILQ_INSERT_TAIL(&block->holding->leased, block, holding_link);
        TAILQ_INSERT_TAIL(&block->pool->leased, block, pool_age_link);
}

static void delist_cached(struct block *block)
{
        struct pool *pool = block->pool;

        if (pool->return_next == block)
                pool->return_next = TAILQ_NEXT(block, pool_age_link);
        if (pool->giving.next == block)
                pool->giving.next = TAILQ_NEXT(block, pool_age_link);
        if (block->holding->evict_next == block)
                block->holding->evict_next = TAILQ_NEXT(block, holding_link);
        bin_forget_charged(block->bin, block);
        bin_remove(block->bin, BIN_CACHED, block);
        TAILQ_REMOVE(&block->holding->cached, block, holding_link);
        TAILQ_REMOVE(&pool->cached, block, pool_age_link);
}

void block_set_seen_idle(struct block *block, bool is_idle)
{
        struct pool *pool = block->pool;

        if (is_idle == block->seen_idle)
                return;
        pool->seen_idle_bytes += is_idle ? block->bin->n_bytes : -block->bin->n_bytes;
        block->holding->seen_idle_bytes += is_idle ? block->bin->n_bytes : -block->bin->n_bytes;
        block->seen_idle = is_idle;
}

static void delist_leased(struct block *block)
{
        block_set_seen_idle(block, false);
        block->word = NULL;
        block->seen_in_use = true;
        bin_remove(block->bin, BIN_LEASED, block);
        TAILQ_REMOVE(&block->holding->leased, block, holding_link);
        TAILQ_REMOVE(&block->pool->leased, block, pool_age_link);
}

/* A lease that was seen idle was unused before, and so is its block from then on. */
void block_end_use(struct block *block)
{
        if (block->seen_in_use)
                block->idle_since_ns = block->pool->policy->now_ns;
        if (block_may_be_idle(block))
                delist_leased(block);
        block->n_busy--;
        block->pool->n_leases--;
}

static int block_new(struct holding *holding, uint64_t n_bytes, uint32_t properties,
                     struct block **ret_block)
{
        struct block *block = calloc(1, sizeof(*block));

        if (!block)
                return -ENOMEM;
        if (bins_ref(&holding->bins, n_bytes, properties, &block->bin)) {
                free(block);
                return -ENOMEM;
        }
        if (numbered_add(&holding->pool->policy->blocks, block, &block->number)) {
                bin_unref(block->bin);
                free(block);
                return -ENOMEM;
        }
        block->id = ++holding->pool->policy->last_block_id;
        block->made_ns = holding->pool->policy->now_ns;
        block->pool = holding->pool;
        block->holding = holding;
        block->seen_in_use = true;
        (void)tenant_ref(holding->tenant);
        TAILQ_INIT(&block->leases);
        LIST_INIT(&block->shares);
        LIST_INSERT_HEAD(&holding->pool->blocks, block, pool_link);
        *ret_block = block;
        return 0;
}

static void block_free(struct block *block)
{
        assert(!block_is_mapped(block) && !block->charge.client && !block->release_all);
        assert(!block->n_busy && LIST_EMPTY(&block->shares) && !block->unresponsive_holder);
        action_withdraw(&block->action);
        if (block->pool->look_next == block)
                block->pool->look_next = LIST_NEXT(block, pool_link);
        LIST_REMOVE(block, pool_link);
        numbered_remove(&block->pool->policy->blocks, block->number);
        bin_unref(block->bin);
        tenant_unref(block->holding->tenant);
        free(block);
}

int block_create(struct request *request, struct block **ret_block)
{
        struct client *client = request->client;
        struct holding *holding = &client->tenant->holdings[request->pool->id];
        struct block *block;
        int r = block_new(holding, request->n_bytes, request->properties, &block);

        if (r)
                return r;
        block->request = request;
        set_state(block, BLOCK_CREATING);
        charge_init(&block->charge, client, holding->pool, request->n_bytes, CHARGE_HELD);
        action_push(&holding->pool->policy->actions, &block->action, ACTION_CREATE);
        *ret_block = block;
        return 0;
}

int block_prewarm(struct holding *holding, uint64_t n_bytes)
{
        struct block *block;
        int r = block_new(holding, n_bytes, 0, &block);

        if (r)
                return r;
        set_state(block, BLOCK_CREATING_FOR_CACHE);
        action_push(&holding->pool->policy->actions, &block->action, ACTION_CREATE);
        return 0;
}

struct block *block_uncreate(struct block *block)
{
        block->request = NULL;
        charge_deinit(&block->charge);
        set_state(block, BLOCK_NONE);
        block_free(block);
        return NULL;
}

void block_create_for_cache(struct block *block)
{
        block->request = NULL;
        block->pool->policy->n_unawaited++;
        charge_deinit(&block->charge);
        set_state(block, BLOCK_CREATING_FOR_CACHE);
}

static void add_lease(struct block *block, struct lease *lease)
{
        TAILQ_INSERT_HEAD(&block->leases, lease, block_link);
        if (!block->eldest)
                block->eldest = lease;
        block->n_leases++;
        block->n_keeping += lease->keeps_mapped;
}

static void remove_lease(struct block *block, struct lease *lease)
{
        if (block->eldest == lease)
                block->eldest = TAILQ_PREV(lease, block_leases, block_link);
        TAILQ_REMOVE(&block->leases, lease, block_link);
        block->n_leases--;
        block->n_keeping -= lease->keeps_mapped;
        block->n_to_recall -= lease->revoked && !lease->recalled;
}

void block_lease(struct block *block, struct lease *lease)
{
        if (block->state == BLOCK_CACHED)
                delist_cached(block);
        charge_deinit(&block->charge);
        block->request = NULL;
        set_state(block, BLOCK_LEASED);
        charge_init(&block->charge, lease->client, block->pool, block->bin->n_bytes, CHARGE_HELD);
        add_lease(block, lease);
        if (has_word(block))
                enlist_leased(block);
}

void block_attach(struct block *block, struct lease *lease)
{
        assert(block->state == BLOCK_LEASED && block->bin->properties & POLICY_SHAREABLE);
        add_lease(block, lease);
        block_count_attached(block, lease, 1);
}

void block_count_attached(const struct block *block, const struct lease *lease, int sign)
{
        struct charge_sum *sum = &lease->client->sums[block->pool->id];

        if (lease->client == block->charge.client)
                return;
        if (sign > 0)
                sum->n_attached_bytes += block->bin->n_bytes;
        else
                sum->n_attached_bytes -= block->bin->n_bytes;
}

/* The charge passes from one client to the other: what the one leases is attached now, and what the other leases is not. */
static void recount_attached(const struct block *block, const struct client *from,
                             const struct client *to)
{
        uint32_t pool = block->pool->id;
        const struct lease *lease;

        TAILQ_FOREACH (lease, &block->leases, block_link) {
                if (lease->state != LEASE_BUSY)
                        continue;
                if (lease->client == from)
                        lease->client->sums[pool].n_attached_bytes += block->bin->n_bytes;
                else if (lease->client == to)
                        lease->client->sums[pool].n_attached_bytes -= block->bin->n_bytes;
        }
}

static void transfer(struct block *block, struct client *client)
{
        block->n_charge_transfers++;
        recount_attached(block, block->charge.client, client);
        charge_owner_set(block, client, CHARGE_HELD);
}

static struct lease *find_eldest_busy(struct block *block)
{
        struct lease *lease = block->eldest;

        while (lease && lease->state != LEASE_BUSY)
                lease = TAILQ_PREV(lease, block_leases, block_link);
        assert(lease);
        block->eldest = lease;
        return lease;
}

void block_transfer_charge(struct block *block)
{
        struct lease *lease = find_eldest_busy(block);

        if (block->charge.client != lease->client) {
                transfer(block, lease->client);
                block->is_uncounted = true;
        }
        if (block->is_uncounted)
                shared_usage_count(block);
        block->is_uncounted = false;
}

/* Leases in which a cached block may still be mapped: a step walks through all of a block, and its release tells each client
 * that lost it. A client may leave as many as it has slots. */
#define LEASES_CACHED_MAX 64

void block_return_to_cache(struct block *block)
{
        if (block->bin->properties & POLICY_FRESH || block->unusable || block->pool->closing ||
            pool_excess(block->pool) || block->n_leases > LEASES_CACHED_MAX) {
                block_release(block);
                return;
        }
        if (block->state == BLOCK_CREATING_FOR_CACHE)
                block->idle_since_ns = block->pool->policy->now_ns;
        set_state(block, BLOCK_CACHED);
        charge_owner_update(block);
        enlist_cached(block);
}

void block_set_unmap_timed_out(struct block *block)
{
        struct totals before = {0};

        block_count(block, &before);
        block->unmap_timed_out = true;
        recount(block, &before);
        unmap_timeout_update_holder(block);
        if (block->state == BLOCK_LINGERING)
                release_all_stays(block);
}

/* A shared block may have a thousand leases, and none of them was revoked. */
static void recall_leases(struct block *block)
{
        struct lease *lease;

        if (!block->n_to_recall)
                return;
        TAILQ_FOREACH (lease, &block->leases, block_link)
                lease_recall(lease);
}

void block_release(struct block *block)
{
        if (block->state == BLOCK_CACHED)
                delist_cached(block);
        while (!LIST_EMPTY(&block->shares))
                share_free(LIST_FIRST(&block->shares));
        set_state(block, BLOCK_RELEASING);
        if (block_is_mapped(block))
                unmap_timeout_expect(block);
        charge_owner_update(block);
        block->line = block->pool->policy->line;
        action_push(&block->pool->policy->actions, &block->action, ACTION_RELEASE);
        recall_leases(block);
}

void block_set_unreleasable(struct block *block)
{
        struct totals before = {0};

        assert(block->state == BLOCK_RELEASING && !action_is_queued(&block->action));
        block_count(block, &before);
        block->unreleasable = true;
        recount(block, &before);
}

static void come_back(struct block *block)
{
        block->pool->n_backs++;
        release_all_released(block);
        set_state(block, BLOCK_NONE);
        block_free(block);
}

void block_released(struct block *block)
{
        assert(block->state == BLOCK_RELEASING && !action_is_queued(&block->action));
        block->backing = NULL;
        block->pool->n_releases++;
        if (!block_is_mapped(block)) {
                come_back(block);
                return;
        }
        set_state(block, BLOCK_LINGERING);
        release_all_lingers(block);
}

void block_unmapped(struct block *block, struct lease *lease)
{
        struct totals before = {0};
        bool is_counted = block->state != BLOCK_LEASED;

        if (is_counted)
                block_count(block, &before);
        remove_lease(block, lease);
        if (is_counted)
                recount(block, &before);
        if (!block_is_mapped(block))
                unmap_timeout_forget(block);
        unmap_timeout_update_holder(block);
        if (block->state == BLOCK_RELEASING || block->state == BLOCK_LINGERING ||
            block->state == BLOCK_CACHED)
                charge_owner_update(block);
        if (block->state == BLOCK_CACHED && !block->charge.client)
                bin_forget_charged(block->bin, block);
        if (block->state == BLOCK_LINGERING && !block_is_mapped(block))
                come_back(block);
}

int block_change_holding(struct block *block, struct holding *holding)
{
        struct holding *before = block->holding;
        const struct totals none = {0};
        struct totals count = {0};
        struct bin *bin;

        assert(block->state == BLOCK_CACHED && !block_is_mapped(block) &&
               before->pool == holding->pool);
        if (bins_ref(&holding->bins, block->bin->n_bytes, block->bin->properties, &bin))
                return -ENOMEM;
        block_count(block, &count);
        delist_cached(block);
        count_in(before, &count, &none);
        bin_unref(block->bin);
        block->bin = bin;
        block->holding = holding;
        (void)tenant_ref(holding->tenant);
        count_in(holding, &none, &count);
        enlist_cached(block);
        tenant_unref(before->tenant);
        return 0;
}

struct block *block_discard(struct block *block)
{
        if (block->state == BLOCK_CACHED)
                delist_cached(block);
        block_free(block);
        return NULL;
}
