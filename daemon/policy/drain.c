/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/drain.h"

#include "daemon/policy/objects/block.h"
#include "daemon/policy/objects/client.h"
#include "daemon/policy/objects/lease.h"
#include "daemon/policy/objects/request.h"
#include "daemon/policy/policy.h"
#include "gpumem.h"

#define NS_PER_S UINT64_C(1000000000)

void drain_signal(struct drain *drain, uint64_t n_seconds, uint64_t now_ns)
{
        if (drain->state == DRAIN_NONE && n_seconds) {
                drain->state = DRAIN_WAITS;
                drain->deadline_ns = now_ns + n_seconds * NS_PER_S;
        } else {
                drain->state = DRAIN_OVER;
        }
}

void drain_see(struct drain *drain, uint64_t n_held_bytes, uint64_t now_ns)
{
        if (drain->state == DRAIN_WAITS && (!n_held_bytes || now_ns >= drain->deadline_ns))
                drain->state = DRAIN_OVER;
}

uint64_t drain_seconds_left(const struct drain *drain, uint64_t now_ns)
{
        if (drain->state != DRAIN_WAITS || now_ns >= drain->deadline_ns)
                return 0;
        return (drain->deadline_ns - now_ns + NS_PER_S - 1) / NS_PER_S;
}

/* Requests that have an answer already keep it. */
static void refuse_waiting(struct client *client)
{
        struct request *request, *next;

        for (request = TAILQ_FIRST(&client->requests); request; request = next) {
                next = TAILQ_NEXT(request, client_link);
                if (request->state != REQUEST_REFUSED)
                        request_refuse(request, GPUMEM_E_SHUTTING_DOWN);
        }
}

void policy_drain(struct policy *policy, uint64_t now_ns)
{
        struct client *client;

        if (policy->draining)
                return;
        policy->draining = true;
        if (now_ns > policy->now_ns)
                policy->now_ns = now_ns;
        LIST_FOREACH (client, &policy->clients, link) {
                refuse_waiting(client);
                client_ask_to_mark(client, now_ns);
        }
        policy_shut_down(policy);
}

bool policy_is_draining(const struct policy *policy)
{
        return policy->draining;
}

/* A lease in use moves to the end of the list, so that the next scan begins with others. */
static void take_idle(struct pool *pool, unsigned n_scans)
{
        const struct block *last = TAILQ_LAST(&pool->leased, pool_blocks_by_age);
        struct block *block = TAILQ_FIRST(&pool->leased), *next;
        bool was_last = false;

        for (; block && !was_last && n_scans; block = next, n_scans--) {
                next = TAILQ_NEXT(block, pool_age_link);
                was_last = block == last;
                if (lease_revoke(TAILQ_FIRST(&block->leases))) {
                        block_release(block);
                } else {
                        TAILQ_REMOVE(&pool->leased, block, pool_age_link);
                        TAILQ_INSERT_TAIL(&pool->leased, block, pool_age_link);
                }
        }
}

void policy_drain_idle(struct policy *policy, unsigned n_scans)
{
        for (uint32_t i = 0; i < policy->n_pools; i++)
                take_idle(policy->pools[i], n_scans);
}

uint64_t policy_held_bytes(const struct policy *policy)
{
        uint64_t n_bytes = 0;

        for (uint32_t i = 0; i < policy->n_pools; i++)
                n_bytes += policy->pools[i]->charged;
        return n_bytes;
}
