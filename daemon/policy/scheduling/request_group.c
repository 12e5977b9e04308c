/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/scheduling/request_group.h"

#include "base/err.h"
#include "daemon/policy/objects/pool.h"
#include "daemon/policy/objects/request.h"
#include "daemon/policy/scheduling/revoke_idle.h"
#include "daemon/policy/state/bins.h"
#include "gpumem.h"

static bool is_gathered(const struct request *request)
{
        return request->state == REQUEST_PART && !request->leader;
}

static void refuse_gathered(struct client *client, int outcome)
{
        struct request *request;

        TAILQ_FOREACH (request, &client->requests, client_link) {
                if (!is_gathered(request))
                        continue;
                request->refusal.of_part = true;
                request_refuse(request, outcome);
        }
}

/* The first error of the group's requests. */
static int end_gathering(struct client *client)
{
        int outcome = client->gather_outcome;

        client->gathers = false;
        client->gather_outcome = 0;
        if (outcome)
                refuse_gathered(client, outcome);
        return outcome;
}

static void note(struct client *client, int r)
{
        if (r && !client->gather_outcome)
                client->gather_outcome = r;
}

void request_group_fail(struct client *client, const struct policy_ask *ask, int r)
{
        if (!ask->more && !client->gathers)
                return;
        note(client, r);
        client->gathers = true;
        if (!ask->more)
                (void)end_gathering(client);
}

/* A group has one pool, and cannot ask for blocks that its client still maps (KNOWN), or for cached ones only. */
static int check(const struct client *client, const struct policy_ask *ask)
{
        const struct request *other;

        if (ask->known_will_do || ask->only_cached || ask->properties)
                return GPUMEM_E_BAD_REQUEST;
        TAILQ_FOREACH (other, &client->requests, client_link) {
                if (is_gathered(other) && other->pool->id != ask->pool)
                        return GPUMEM_E_BAD_REQUEST;
        }
        return 0;
}

struct request *request_group_add(struct request *request, struct lease *take_lease,
                                  const struct policy_ask *ask, int r)
{
        struct client *client = request->client;
        struct pool *pool;

        request->lease = take_lease;
        if (!r)
                r = check(client, ask);
        note(client, r);
        client->gathers = true;
        if (!ask->more)
                r = end_gathering(client);
        if (r) {
                request_refuse(request, r);
                return NULL;
        }
        pool = client->policy->pools[ask->pool];
        if (ask->more) {
                request_gather(request, pool, take_lease);
                return NULL;
        }
        request_wait(request, pool, take_lease);
        request_lead(request);
        return request;
}

void request_group_cancel(struct request *request)
{
        if (is_gathered(request))
                note(request->client, GPUMEM_E_CANCELLED);
        request_refuse(request->leader ? request->leader : request, GPUMEM_E_CANCELLED);
}

static struct bin *bin_for(const struct request *part)
{
        struct bin_range range = {.n_least_bytes = part->n_bytes, .n_most_bytes = part->n_bytes};

        return bins_find(&request_holding(part)->bins, BIN_CACHED, &range);
}

static bool is_of(const struct request *request, const struct request *leader)
{
        return request == leader || (request->state == REQUEST_PART && request->leader == leader);
}

/* Of the parts of that size, those for which no cached block is left. */
static uint32_t count_lacking(const struct request *first_of_size)
{
        const struct bin *bin = bin_for(first_of_size);
        uint32_t n_cached = bin ? bin->n_cached : 0;

        return first_of_size->n_of_size > n_cached ? first_of_size->n_of_size - n_cached : 0;
}

static void count(struct request *leader)
{
        const struct request *first;

        leader->n_to_make = 0;
        leader->n_room_bytes = 0;
        for (first = leader; first; first = first->next_size) {
                uint32_t n_lacking = count_lacking(first);

                leader->n_to_make += n_lacking;
                leader->n_room_bytes += n_lacking * first->n_bytes;
        }
}

/* Puts idle leases of blocks that serve parts of that size behind the first `n`, which have been picked. Returns how many
 * have been, with up to n_most of these. */
static unsigned pick(struct idle_leases *idle, unsigned n, uint64_t n_bytes, uint32_t n_most)
{
        for (unsigned i = n; i < idle->n && n_most; i++) {
                struct lease *lease = idle->leases[i];
                const struct bin *bin = lease->block->bin;

                if (bin->n_bytes != n_bytes || bin->properties)
                        continue;
                idle->leases[i] = idle->leases[n];
                idle->leases[n++] = lease;
                n_most--;
        }
        return n;
}

/* Further bytes that could be taken for it. */
static uint64_t other_bytes(const struct pool *pool)
{
        return pool_room(pool) + pool->totals.incoming + pool->totals.evictable +
               pool->totals.mapped_cached;
}

static void take_idle(struct request *leader, struct scan_budget *budget)
{
        struct idle_leases idle = {.n = 0};
        uint64_t n_bytes = 0;
        const struct request *first;
        unsigned n = 0;

        revoke_idle_add_own(&idle, request_holding(leader), NULL, budget);
        for (first = leader; first; first = first->next_size) {
                unsigned n_before = n;

                n = pick(&idle, n, first->n_bytes, count_lacking(first));
                n_bytes += (n - n_before) * first->n_bytes;
        }
        if (n_bytes + other_bytes(leader->pool) < leader->n_all_bytes)
                return;
        for (unsigned i = 0; i < n; i++)
                (void)revoke_idle_try(idle.leases[i]->block);
}

void request_group_look(struct request *leader, struct scan_budget *budget)
{
        count(leader);
        if (!leader->n_to_make)
                return;
        take_idle(leader, budget);
        count(leader);
}

static bool serve_cached(struct request *part)
{
        struct bin *bin = bin_for(part);

        if (!bin)
                return false;
        part->pool->n_grants_from_cache++;
        request_grant(part, TAILQ_FIRST(&bin->sides[BIN_CACHED]));
        return true;
}

static void serve_one(struct request *part)
{
        int r;

        request_part(part);
        if (serve_cached(part))
                return;
        r = request_create(part);
        if (r)
                request_refuse(part, r);
}

void request_group_serve(struct request *take_leader)
{
        struct client *client = take_leader->client;
        struct request *request, *next;

        for (request = TAILQ_FIRST(&client->requests); request; request = next) {
                next = TAILQ_NEXT(request, client_link);
                if (request != take_leader && is_of(request, take_leader))
                        serve_one(request);
        }
        serve_one(take_leader);
}
