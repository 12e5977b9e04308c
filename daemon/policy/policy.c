/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for events: each passes the event to its object, and then the pool serves its queue. */
#include "daemon/policy/policy.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "daemon/policy/client_end.h"
#include "daemon/policy/kept_shares.h"
#include "daemon/policy/objects/block.h"
#include "daemon/policy/objects/client.h"
#include "daemon/policy/objects/lease.h"
#include "daemon/policy/objects/pool.h"
#include "daemon/policy/objects/release_all.h"
#include "daemon/policy/objects/request.h"
#include "daemon/policy/scheduling/admission.h"
#include "daemon/policy/scheduling/request_group.h"
#include "daemon/policy/scheduling/service.h"
#include "daemon/policy/state/action_queue.h"
#include "daemon/policy/state/limits.h"
#include "gpumem.h"

int policy_new(struct policy **ret_policy)
{
        struct policy *policy = calloc(1, sizeof(*policy));
        int r;

        if (!policy)
                return -ENOMEM;
        action_queue_init(&policy->actions);
        r = service_new(&policy->service);
        if (r) {
                free(policy);
                return r;
        }
        policy->max_blocks = UINT64_MAX;
        policy->n_looks_left = UINT_MAX;
        LIST_INIT(&policy->clients);
        *ret_policy = policy;
        return 0;
}

void policy_set_witness(struct policy *policy, const struct policy_witness *witness)
{
        policy->witness = witness ? *witness : (struct policy_witness){.argument = NULL};
}

static void discard_blocks(struct pool *pool)
{
        while (!LIST_EMPTY(&pool->blocks))
                block_discard(LIST_FIRST(&pool->blocks));
}

struct policy *policy_free(struct policy *policy)
{
        if (!policy)
                return NULL;
        keep_forget_all(policy);
        while (!LIST_EMPTY(&policy->clients)) {
                struct client *client = LIST_FIRST(&policy->clients);

                (void)client_end_drop(client, UINT_MAX);
                client_free(client);
        }
        /* Every pool's queue must learn that a tenant ends. */
        for (uint32_t i = 0; i < policy->n_pools; i++)
                discard_blocks(policy->pools[i]);
        for (uint32_t i = 0; i < policy->n_pools; i++)
                pool_free(policy->pools[i]);
        assert(!policy->tenants && !policy->shares && TAILQ_EMPTY(&policy->actions.nodes));
        numbered_deinit(&policy->blocks);
        numbered_deinit(&policy->tenants_by_number);
        limits_free(policy->limits);
        free(policy->pools);
        free(policy->service);
        free(policy);
        return NULL;
}

int policy_add_pool(struct policy *policy, const struct policy_pool *pool, uint32_t *ret_id)
{
        struct pool **pools;
        int r;

        /* Tenants and clients have arrays with one element for each pool that existed when they came. */
        if (policy->tenants)
                return -EBUSY;
        pools = realloc(policy->pools, (policy->n_pools + 1) * sizeof(struct pool *));
        if (!pools)
                return -ENOMEM;
        policy->pools = pools;
        r = pool_new(policy, policy->n_pools, pool, &pools[policy->n_pools]);
        if (r)
                return r;
        *ret_id = policy->n_pools++;
        return 0;
}

int policy_add_client(struct policy *policy, const struct tenant_key *key,
                      const struct tenant_key *owner_key, uint32_t n_slots, _Atomic uint64_t *words,
                      void *owner, struct client **ret_client)
{
        int r = client_new(policy, key, owner_key, n_slots, owner, ret_client);

        if (!r)
                (*ret_client)->words = words;
        return r;
}

/* An event without a time of its own has the time of the last one. */
static void note_time(struct policy *policy, uint64_t now_ns)
{
        if (now_ns > policy->now_ns)
                policy->now_ns = now_ns;
}

static void serve_all(struct policy *policy, uint64_t now_ns)
{
        for (uint32_t i = 0; i < policy->n_pools; i++)
                service_serve(policy->pools[i], now_ns);
}

bool policy_client_drop_some(struct policy *policy, struct client *client, unsigned n_most,
                             uint64_t now_ns)
{
        bool has_more;

        assert(client->policy == policy && !client->eof && !client->dead);
        note_time(policy, now_ns);
        has_more = client_end_drop(client, n_most);
        serve_all(policy, now_ns);
        return has_more;
}

bool policy_client_unmap_some(struct policy *policy, struct client *client, unsigned n_most,
                              uint64_t now_ns)
{
        bool has_more;

        assert(client->policy == policy && (client->eof || client->dead));
        note_time(policy, now_ns);
        has_more = client_end_unmap(client, n_most);
        serve_all(policy, now_ns);
        return has_more;
}

/* Notes one sign of the client's end. Returns whether both have come. */
static bool take_sign(struct client *client, uint64_t now_ns)
{
        struct policy *policy = client->policy;
        bool is_last = client->eof && client->dead;

        note_time(policy, now_ns);
        if (is_last)
                client_free(client);
        else
                (void)client_end_drop(client, UINT_MAX);
        serve_all(policy, now_ns);
        return is_last;
}

bool policy_client_eof(struct policy *policy, struct client *client, uint64_t now_ns)
{
        assert(client->policy == policy && !client->eof);
        client->eof = true;
        return take_sign(client, now_ns);
}

bool policy_client_dead(struct policy *policy, struct client *client, uint64_t now_ns)
{
        assert(client->policy == policy && !client->dead);
        client->dead = true;
        return take_sign(client, now_ns);
}

static void assert_speaks(const struct policy *policy, const struct client *client)
{
        assert(client->policy == policy && !client->is_ending);
}

void policy_lease(struct policy *policy, struct client *client, const struct policy_ask *ask,
                  uint64_t now_ns)
{
        struct pool *pool;

        assert_speaks(policy, client);
        note_time(policy, now_ns);
        pool = admission_ask(client, ask, now_ns);
        if (pool)
                service_serve(pool, now_ns);
        /* What was left to serve before is served by any event, also by one that serves itself. */
        while (!pool && !policy->in_turns && !service_go_on(policy, UINT_MAX, now_ns))
                continue;
}

void policy_lease_denied(struct client *client, const struct policy_ask *ask)
{
        request_group_fail(client, ask, GPUMEM_E_DENIED);
}

bool policy_cancel(struct policy *policy, struct client *client, uint32_t serial, uint64_t now_ns)
{
        struct request *request;
        struct pool *pool;

        assert_speaks(policy, client);
        note_time(policy, now_ns);
        request = request_find(client, serial);
        if (!request)
                return false;
        pool = request->pool;
        request_group_cancel(request);
        service_serve(pool, now_ns);
        return true;
}

int policy_return(struct policy *policy, struct client *client, uint64_t lease_id,
                  enum return_kind kind, uint64_t now_ns)
{
        struct lease *lease;
        struct block *block;
        struct pool *pool;

        assert_speaks(policy, client);
        note_time(policy, now_ns);
        lease = lease_find(client, lease_id);
        if (!lease || lease->state != LEASE_BUSY)
                return GPUMEM_E_NO_LEASE;
        block = lease->block;
        pool = block->pool;
        keep_begin(lease);
        lease_end_use(lease);
        if (kind != RETURN_MAPPED)
                lease_free(lease);
        if (kind == RETURN_UNUSED && block->n_grants == 1 && !block->n_busy)
                block->unusable = true;
        if (block->n_busy)
                block_transfer_charge(block);
        else
                block_return_to_cache(block);
        service_serve(pool, now_ns);
        return 0;
}

int policy_unmapped(struct policy *policy, struct client *client, uint64_t lease_id,
                    uint64_t now_ns)
{
        struct lease *lease;
        struct pool *pool;

        assert_speaks(policy, client);
        note_time(policy, now_ns);
        lease = lease_find(client, lease_id);
        if (!lease || lease->state != LEASE_RETURNED)
                return GPUMEM_E_NO_LEASE;
        pool = lease->block->pool;
        lease_free(lease);
        service_serve(pool, now_ns);
        return 0;
}

void client_set_words(struct client *client, _Atomic uint64_t *words)
{
        client->words = words;
}

void client_set_line(struct client *client, uint64_t line)
{
        client->line = line;
}

void policy_set_node_line(struct policy *policy, uint64_t line)
{
        policy->node_line = line;
}

void client_set_held(struct client *client, uint64_t n_bytes)
{
        client->n_held_bytes = n_bytes;
}

void client_hear_pressure(struct client *client)
{
        client->hears_pressure = true;
}

int policy_declare(struct policy *policy, struct client *client, uint32_t pool, uint64_t n_bytes,
                   uint64_t now_ns)
{
        uint64_t n_before;
        int r;

        assert_speaks(policy, client);
        note_time(policy, now_ns);
        if (pool >= policy->n_pools)
                return GPUMEM_E_NO_POOL;
        n_before = client->declared[pool].n_bytes;
        r = client_declare(client, policy->pools[pool], n_bytes);
        if (!r && n_bytes < n_before)
                service_serve(policy->pools[pool], now_ns);
        return r;
}

int policy_release_all(struct policy *policy, struct client *client, uint32_t serial,
                       enum policy_scope scope, uint32_t pool)
{
        assert_speaks(policy, client);
        if (scope != SCOPE_TENANT && scope != SCOPE_NODE)
                return GPUMEM_E_BAD_REQUEST;
        if (pool >= policy->n_pools && pool != POLICY_ALL_POOLS)
                return GPUMEM_E_NO_POOL;
        return release_all_new(client, serial, pool, scope);
}

bool policy_release_more(struct policy *policy, struct client *client, unsigned n_most)
{
        assert_speaks(policy, client);
        return release_all_go_on(client, n_most);
}

uint64_t policy_n_events(const struct policy *policy)
{
        return policy->n_events;
}

uint64_t policy_n_unawaited(const struct policy *policy)
{
        return policy->n_unawaited;
}

int policy_reclaim(struct policy *policy, struct client *client, uint32_t serial,
                   bool (*is_chosen)(const struct tenant_key *key, const void *argument),
                   const void *argument)
{
        assert_speaks(policy, client);
        return release_all_of(client, serial, is_chosen, argument);
}

static void created_for_request(struct block *block, int result, void *backing)
{
        struct request *request = block->request;

        if (result == 0) {
                block->backing = backing;
                block->pool->n_creates++;
                request_grant(request, block);
        } else if (result == GPUMEM_E_DEVICE_FULL && !request->in_group) {
                request_device_full(request);
        } else {
                request->block = block_uncreate(block);
                request_refuse(request, result);
        }
}

static void created_for_cache(struct block *block, int result, void *backing)
{
        if (result) {
                block_uncreate(block);
                return;
        }
        block->backing = backing;
        block->pool->n_creates++;
        block_return_to_cache(block);
}

void policy_created(struct policy *policy, struct block *block, int result, void *backing,
                    uint64_t now_ns)
{
        struct pool *pool = block->pool;

        assert(pool->policy == policy && !action_is_queued(&block->action));
        note_time(policy, now_ns);
        if (block->state == BLOCK_CREATING)
                created_for_request(block, result, backing);
        else
                created_for_cache(block, result, backing);
        service_serve(pool, now_ns);
}

void policy_released(struct policy *policy, struct block *block, uint64_t now_ns)
{
        struct pool *pool = block->pool;

        assert(pool->policy == policy);
        note_time(policy, now_ns);
        block_released(block);
        service_serve(pool, now_ns);
}

struct block *policy_leased_block(struct client *client, uint64_t lease_id)
{
        struct lease *lease = lease_find(client, lease_id);

        if (!lease || (lease->block->state != BLOCK_LEASED && lease->block->state != BLOCK_CACHED))
                return NULL;
        return lease->block;
}

void policy_mark_unusable(struct policy *policy, struct block *block, uint64_t now_ns)
{
        struct pool *pool = block->pool;

        assert(pool->policy == policy);
        block->unusable = true;
        if (block->state != BLOCK_CACHED)
                return;
        block_release(block);
        service_serve(pool, now_ns);
}

void policy_retry(struct policy *policy, uint32_t pool, uint64_t now_ns)
{
        policy->pools[pool]->n_backs++;
        service_serve(policy->pools[pool], now_ns);
}

uint64_t policy_next_keep_end(const struct policy *policy)
{
        return keep_next_end(policy);
}

void policy_expire(struct policy *policy, uint64_t now_ns)
{
        note_time(policy, now_ns);
        if (!policy->in_turns)
                (void)keep_expire(policy, UINT_MAX, now_ns);
        serve_all(policy, now_ns);
}

void policy_serve_in_turns(struct policy *policy)
{
        policy->in_turns = true;
}

unsigned policy_serve(struct policy *policy, unsigned n_items, uint64_t now_ns)
{
        unsigned n_left;

        note_time(policy, now_ns);
        n_left = keep_expire(policy, n_items, now_ns);
        if (n_left < n_items)
                serve_all(policy, now_ns);
        return service_go_on(policy, n_left, now_ns);
}

uint64_t policy_next_deadline(const struct policy *policy)
{
        uint64_t earliest_ns = UINT64_MAX;

        for (uint32_t i = 0; i < policy->n_pools; i++) {
                uint64_t deadline_ns = service_next_deadline(policy->pools[i]);

                if (deadline_ns < earliest_ns)
                        earliest_ns = deadline_ns;
        }
        return earliest_ns;
}

void policy_shut_down(struct policy *policy)
{
        keep_end_all(policy);
        for (uint32_t i = 0; i < policy->n_pools; i++) {
                struct pool *pool = policy->pools[i];

                pool->closing = true;
                while (!TAILQ_EMPTY(&pool->cached))
                        block_release(TAILQ_FIRST(&pool->cached));
        }
}
