/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/objects/request.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "daemon/policy/objects/block.h"
#include "daemon/policy/objects/lease.h"
#include "daemon/policy/objects/tenant.h"
#include "daemon/policy/state/action_queue.h"
#include "daemon/policy/state/bins.h"
#include "daemon/policy/state/waiting_queue.h"
#include "gpumem.h"

static const unsigned legal_next[REQUEST_N_STATES] = {
        [REQUEST_NEW] = BIT(REQUEST_PART) | BIT(REQUEST_WAITING) | BIT(REQUEST_REFUSED),
        [REQUEST_PART] = BIT(REQUEST_WAITING) | BIT(REQUEST_REFUSED),
        [REQUEST_WAITING] = BIT(REQUEST_CREATING) | BIT(REQUEST_REFUSED),
        [REQUEST_CREATING] = BIT(REQUEST_WAITING) | BIT(REQUEST_REFUSED),
        [REQUEST_REFUSED] = 0,
};

static void set_state(struct request *request, enum request_state state)
{
        assert(legal_next[request->state] & BIT(state));
        request->state = state;
}

static struct owner *owner_of(const struct request *request)
{
        return request->client->tenant->owner;
}

static bool is_in_queue(const struct request *request)
{
        return request->state == REQUEST_WAITING || request->state == REQUEST_CREATING;
}

static bool is_unanswered(const struct request *request)
{
        return request->state == REQUEST_PART || is_in_queue(request);
}

/* The largest cached block that serves the request: the client's value, at most that of the bins. */
static uint64_t most_bytes(const struct policy_ask *ask)
{
        uint64_t limit = bins_limit(ask->n_bytes);

        if (ask->n_most_bytes && ask->n_most_bytes < limit)
                return ask->n_most_bytes;
        return limit;
}

static uint64_t least_bytes(const struct policy_ask *ask)
{
        if (ask->n_least_bytes && ask->n_least_bytes < ask->n_bytes)
                return ask->n_least_bytes;
        return ask->n_bytes;
}

int request_new(struct client *client, const struct policy_ask *ask, struct request **ret_request)
{
        struct request *request = malloc(sizeof(*request));

        if (!request)
                return -ENOMEM;
        *request = (struct request){
                .client = client,
                .n_bytes = ask->n_bytes,
                .n_most_bytes = most_bytes(ask),
                .n_least_bytes = least_bytes(ask),
                .known_will_do = ask->known_will_do,
                .only_known = ask->only_known,
                .only_cached = ask->only_cached,
                .keeps_mapped = ask->keeps_mapped,
                .properties = ask->properties,
                .deadline_ns = ask->only_known || ask->only_cached ? 0 : ask->deadline_ns,
                .n_parts = 1,
                .n_all_bytes = ask->n_bytes,
                .n_to_make = 1,
                .n_room_bytes = ask->n_bytes,
                .refusal = {.client = client,
                            .pool = ask->pool,
                            .serial = ask->serial,
                            .n_bytes = ask->n_bytes,
                            .request = request},
        };
        TAILQ_INSERT_TAIL(&client->requests, request, client_link);
        *ret_request = request;
        return 0;
}

static void abandon_block(struct request *request)
{
        struct block *block = steal_ptr(request->block);

        if (!block)
                return;
        if (action_is_queued(&block->action))
                block_uncreate(block);
        else
                block_create_for_cache(block);
}

static void enter_queue(struct request *request)
{
        waiting_queue_enqueue(request);
        request->pool->n_waiting++;
        request_holding(request)->n_waiting++;
        tenant_begin_wait(request->client->tenant);
}

static void leave_queue(struct request *request)
{
        if (request->state == REQUEST_CREATING)
                owner_of(request)->n_making--;
        waiting_queue_dequeue(request);
        request->pool->n_waiting--;
        request_holding(request)->n_waiting--;
        tenant_end_wait(request->client->tenant);
}

/* Begins in its state; the client waits for an answer from now on. */
static void begin(struct request *request, struct pool *pool, struct lease *take_lease)
{
        request->pool = pool;
        request->lease = take_lease;
        /* The flag is for pinned blocks only. On a device block it would only keep the block from others,
         * outside of every limit. */
        request->keeps_mapped = request->keeps_mapped && pool->settings.kind == POLICY_PINNED;
        request->client->n_waiting++;
}

static void end(struct request *request)
{
        request->client->n_waiting--;
}

/* Frees what an unanswered request holds. The lease is gone already if it was granted. */
static void drop_held(struct request *request)
{
        if (is_in_queue(request))
                leave_queue(request);
        if (is_unanswered(request))
                end(request);
        abandon_block(request);
        request->lease = lease_free(request->lease);
}

struct request *request_free(struct request *request)
{
        if (!request)
                return NULL;
        drop_held(request);
        action_withdraw(&request->refusal.action);
        TAILQ_REMOVE(&request->client->requests, request, client_link);
        free(request);
        return NULL;
}

struct bin_range request_fits(const struct request *request)
{
        return (struct bin_range){.n_least_bytes = request->n_bytes,
                                  .n_most_bytes = request->n_most_bytes,
                                  .properties = request->properties};
}

struct bin_range request_takes(const struct request *request)
{
        return (struct bin_range){.n_least_bytes = request->n_least_bytes,
                                  .n_most_bytes = request->n_bytes - 1,
                                  .properties = request->properties};
}

struct request *request_find(struct client *client, uint32_t serial)
{
        struct request *request;

        TAILQ_FOREACH (request, &client->requests, client_link) {
                if (is_unanswered(request) && request->refusal.serial == serial)
                        return request;
        }
        return NULL;
}

void request_wait(struct request *request, struct pool *pool, struct lease *take_lease)
{
        set_state(request, REQUEST_WAITING);
        begin(request, pool, take_lease);
        enter_queue(request);
}

void request_gather(struct request *request, struct pool *pool, struct lease *take_lease)
{
        set_state(request, REQUEST_PART);
        request->in_group = true;
        begin(request, pool, take_lease);
}

static struct request *find_size(struct request *leader, uint64_t n_bytes)
{
        struct request *part = leader;

        while (part && part->n_bytes != n_bytes)
                part = part->next_size;
        return part;
}

/* Counts parts by their sizes, so that looks at a group that waits need not go through all parts. */
static void add_size(struct request *leader, struct request *part)
{
        struct request *first = find_size(leader, part->n_bytes);

        if (!first) {
                part->next_size = leader->next_size;
                leader->next_size = first = part;
                leader->n_sizes++;
        }
        first->n_of_size++;
}

void request_lead(struct request *leader)
{
        struct request *part;

        leader->in_group = true;
        leader->n_sizes = leader->n_of_size = 1;
        TAILQ_FOREACH (part, &leader->client->requests, client_link) {
                if (part->state != REQUEST_PART || part->leader)
                        continue;
                part->leader = leader;
                leader->n_parts++;
                leader->n_all_bytes += part->n_bytes;
                add_size(leader, part);
        }
        leader->n_to_make = leader->n_parts;
        leader->n_room_bytes = leader->refusal.n_bytes = leader->n_all_bytes;
}

void request_part(struct request *part)
{
        struct request *leader = part->leader;

        if (leader) {
                leader->n_parts--;
                leader->n_all_bytes -= part->n_bytes;
                part->leader = NULL;
                set_state(part, REQUEST_WAITING);
                enter_queue(part);
        }
        part->n_to_make = 1;
        part->n_room_bytes = part->refusal.n_bytes = part->n_bytes;
}

int request_create(struct request *request)
{
        int r = block_create(request, &request->block);

        if (r)
                return r;
        waiting_queue_give(request->block->holding, request->n_bytes);
        set_state(request, REQUEST_CREATING);
        owner_of(request)->n_making++;
        request->covered = false;
        request->n_backs = request->pool->n_backs;
        return 0;
}

void request_device_full(struct request *request)
{
        waiting_queue_take_back(request->block->holding, request->n_bytes);
        request->block = block_uncreate(request->block);
        request->device_full = true;
        owner_of(request)->n_making--;
        set_state(request, REQUEST_WAITING);
}

struct request *request_grant(struct request *request, struct block *block)
{
        request->lease->known_will_do = request->known_will_do;
        request->lease->keeps_mapped = request->keeps_mapped;
        block->n_grants++;
        lease_grant(steal_ptr(request->lease), block);
        request->block = NULL;
        return request_free(request);
}

static void refuse_one(struct request *request, int outcome)
{
        drop_held(request);
        set_state(request, REQUEST_REFUSED);
        /* A request that accepts only some blocks does not show a lack of memory. */
        if (request->pool && outcome != GPUMEM_E_CANCELLED && !request->only_known &&
            !request->only_cached && !request->refusal.of_part)
                request->pool->n_refusals++;
        request->refusal.outcome = outcome;
        action_push(&request->client->policy->actions, &request->refusal.action, ACTION_REFUSE);
}

static void refuse_parts(const struct request *leader, int outcome)
{
        struct request *part;

        TAILQ_FOREACH (part, &leader->client->requests, client_link) {
                if (part->state != REQUEST_PART || part->leader != leader)
                        continue;
                part->leader = NULL;
                part->refusal.of_part = true;
                refuse_one(part, outcome);
        }
}

void request_refuse(struct request *request, int outcome)
{
        if (request->n_parts > 1)
                refuse_parts(request, outcome);
        refuse_one(request, outcome);
}

void request_refuse_limit(struct request *request, const struct limit_hit *hit)
{
        request->refusal.hit = *hit;
        request_refuse(request, GPUMEM_E_LIMIT);
}
