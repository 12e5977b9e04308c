/* Each order that is taken, against what may be ordered. */
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "daemon/policy/idle.h"
#include "daemon/policy/overdue.h"
#include "daemon/policy/passing.h"
#include "tests/model/policy_model.h"

static struct model_client *client_of(const struct model *model, const struct order *order)
{
        struct model_client *client;

        LIST_FOREACH (client, &model->clients, link) {
                if (client->client == order->client)
                        return client;
        }
        must(model, !"an order names a client that is gone");
        return NULL;
}

static bool is_refused_for_what_it_is(const struct order *order)
{
        return order->kind == ORDER_REFUSE && !order->of_blocks &&
               (order->outcome == GPUMEM_E_NO_POOL || order->outcome == GPUMEM_E_BAD_REQUEST ||
                order->outcome == GPUMEM_E_TOO_LARGE || order->outcome == GPUMEM_E_TOO_MANY);
}

/* A serial alone does not tell a request from one that is refused for having the same serial. */
static bool may_answer(const struct order *order, const struct model_request *request)
{
        if (request->ask.serial != order->serial)
                return false;
        if (!request->predicted)
                return true;
        return is_refused_for_what_it_is(order) ? request->outcome == order->outcome
                                                : request->outcome == 0;
}

/* The pool's limit may have been lowered since it was asked. */
static bool may_have_become_too_large(const struct order *order,
                                      const struct model_request *request)
{
        return order->kind == ORDER_REFUSE && order->outcome == GPUMEM_E_TOO_LARGE &&
               request->ask.serial == order->serial && !request->outcome;
}

static struct model_request *request_of(const struct model *model, const struct order *order)
{
        struct model_client *client = client_of(model, order);
        struct model_request *request;

        must(model, model_speaks(client));
        TAILQ_FOREACH (request, &model->requests, link) {
                if (request->client == client && may_answer(order, request))
                        break;
        }
        if (!request) {
                TAILQ_FOREACH (request, &model->requests, link) {
                        if (request->client == client && may_have_become_too_large(order, request))
                                break;
                }
        }
        must(model, request);
        must(model, order->pool == request->ask.pool);
        return request;
}

static struct model_block *block_of(const struct model *model, const struct order *order)
{
        struct model_block *block;

        LIST_FOREACH (block, &model->blocks, link) {
                if (block->block == order->block)
                        break;
        }
        must(model, block);
        must(model, block_id(order->block) == block->id);
        must(model, block_pool(order->block) == block->pool && order->pool == block->pool);
        must(model, block_bytes(order->block) == block->n_bytes);
        must(model, block_properties(order->block) == block->properties);
        return block;
}

/* Waits for the same pool's memory. */
static bool is_queued(const struct model_request *other, const struct model_request *request)
{
        return other->ask.pool == request->ask.pool && !other->block;
}

static bool is_first_of_its_tenant(const struct model *model, const struct model_request *request)
{
        const struct model_request *older;

        TAILQ_FOREACH (older, &model->requests, link) {
                if (older == request)
                        return true;
                if (older->client->uid == request->client->uid && is_queued(older, request))
                        return false;
        }
        return false;
}

/* Whether the other one was looked at before the request for certain: it is an older one of the tenant,
 * or the head of one that was given less. */
static bool was_before(const struct model *model, const struct model_request *other,
                       const struct model_request *request)
{
        const uint64_t *n_given_bytes = model->pools[request->ask.pool].n_given_bytes;

        if (other->client->uid == request->client->uid)
                return other->number < request->number;
        return n_given_bytes[other->client->uid] < n_given_bytes[request->client->uid] &&
               is_first_of_its_tenant(model, other);
}

/* A tenant's requests hold up others for a time before they do so no more for a while: between two of its
 * rests there is such a time again, and a rest is no longer than that while. */
static void check_rest(struct model *model, const struct model_request *passed)
{
        struct model_rest *rest = &model->pools[passed->ask.pool].rests[passed->client->uid];
        uint64_t end_ns = rest->began_ns + PASSING_ROUND_NS - PASSING_HOLD_NS;

        if (!rest->began_ns || model->now_ns >= end_ns) {
                uint64_t before_ns = rest->began_ns ? rest->last_ns : rest->asked_ns;

                must(model, model->now_ns >= before_ns + PASSING_HOLD_NS);
                rest->began_ns = model->now_ns;
        }
        rest->last_ns = model->now_ns;
}

/* Room goes to requests in their turn; what does not fit may be passed by smaller ones, some times, and by
 * all while its tenant holds up nobody. */
static void check_turn(struct model *model, const struct model_request *request)
{
        struct model_request *other;

        if (model->revoked)
                return;
        TAILQ_FOREACH (other, &model->requests, link) {
                if (other == request || !is_queued(other, request) || model_held(model, other) ||
                    !was_before(model, other, request))
                        continue;
                if (++other->n_passed > PASSING_MAX || request->ask.n_bytes >= other->ask.n_bytes)
                        check_rest(model, other);
                model->n_passed++;
        }
}

static struct model_block *take_create(struct model *model, const struct order *order)
{
        struct model_request *request = request_of(model, order);
        struct model_block *block = calloc(1, sizeof(*block));

        must(model, block && !request->block && !request->cancelled && !request->failure);
        must(model, !request->ask.only_known);
        must(model, model->pools[request->ask.pool].standing == STANDING_SERVES);
        must(model, block_id(order->block) > model->last_block_id);
        must(model, block_bytes(order->block) == request->ask.n_bytes);
        must(model, block_properties(order->block) == request->ask.properties);
        must(model, !block_backing(order->block));
        if (model->kind == MODEL_EXACT) {
                check_turn(model, request);
                must(model,
                     !model_limit(model, request->client, request->ask.pool, request->ask.n_bytes));
                must(model, model_room(model, request->ask.pool) >= request->ask.n_bytes);
        }
        *block = (struct model_block){
                .block = order->block,
                .id = block_id(order->block),
                .pool = request->ask.pool,
                .uid = request->client->uid,
                .n_bytes = request->ask.n_bytes,
                .properties = request->ask.properties,
                .state = MODEL_MAKING,
                .request = request,
        };
        TAILQ_INIT(&block->leases);
        LIST_INSERT_HEAD(&model->blocks, block, link);
        model->last_block_id = block->id;
        model->pools[block->pool].n_jobs++;
        model->pools[block->pool].was_ordered = true;
        model_give(model, request);
        request->block = block;
        request->n_backs = model->pools[block->pool].n_backs;
        return block_of(model, order);
}

static struct model_block *take_release(struct model *model, const struct order *order)
{
        struct model_block *block = block_of(model, order);

        must(model, !order->client && block_backing(order->block) == block);
        must(model, !block->release_ordered);
        if (block->state == MODEL_CACHED) {
                model_let_go(model, block);
                block->evicted = true;
                if (model->kind == MODEL_EXACT)
                        model->pools[block->pool].evicted_last = block;
        }
        must(model, block->state == MODEL_RELEASING);
        block->release_ordered = true;
        model->pools[block->pool].n_jobs++;
        return block;
}

static bool maps(const struct model_client *client, const struct model_block *block)
{
        const struct model_lease *lease;

        TAILQ_FOREACH (lease, &block->leases, block_link) {
                if (lease->client == client)
                        return true;
        }
        return false;
}

/* One that is large enough and mapped, if that is asked for. The smallest that is large enough, else the
 * largest; of these one that the client maps; of these the one cached last. */
static bool is_better(const struct model_request *request, const struct model_block *a,
                      const struct model_block *b)
{
        const struct model_client *client = request->client;
        uint64_t n_bytes = request->ask.n_bytes;

        if ((a->n_bytes < n_bytes) != (b->n_bytes < n_bytes))
                return b->n_bytes < n_bytes;
        if (request->ask.known_will_do && a->n_bytes >= n_bytes &&
            maps(client, a) != maps(client, b))
                return maps(client, a);
        if (a->n_bytes != b->n_bytes)
                return (a->n_bytes < b->n_bytes) == (a->n_bytes >= n_bytes);
        if (maps(client, a) != maps(client, b))
                return maps(client, a);
        return a->cached_at > b->cached_at;
}

static void check_choice(const struct model *model, const struct model_request *request,
                         const struct model_block *chosen)
{
        bool is_held = model_held(model, request);
        const struct model_block *block;

        LIST_FOREACH (block, &model->blocks, link) {
                /* When it was revoked is not known: perhaps after the choice. */
                if (block == chosen || block->state != MODEL_CACHED || block->was_idle ||
                    !model_serves(block, request))
                        continue;
                /* Larger ones may be beyond a limit that the chosen one is not. */
                if (model_limit_by(model, request->client, block))
                        continue;
                /* Who is held by a limit has what is its own already. */
                if (is_held && model_payer(block) != request->client)
                        continue;
                must(model, !is_better(request, block, chosen));
        }
}

static void check_lease(const struct model *model, const struct model_client *client,
                        const struct lease *lease)
{
        const struct model_lease *other;

        must(model, lease_id(lease) != 0 && lease_id(lease) >> 56 == 0);
        must(model, lease_slot(lease) < client->n_slots);
        LIST_FOREACH (other, &client->leases, client_link)
                must(model, other->slot != lease_slot(lease) && other->id != lease_id(lease));
}

void model_add_lease(struct model *model, struct model_client *client, struct model_block *block,
                     const struct lease *name)
{
        struct model_lease *lease = calloc(1, sizeof(*lease));

        must(model, lease);
        if (lease_id(name) > model->last_lease_id)
                model->last_lease_id = lease_id(name);
        check_lease(model, client, name);
        *lease = (struct model_lease){.id = lease_id(name),
                                      .slot = lease_slot(name),
                                      .busy = true,
                                      .client = client,
                                      .block = block};
        TAILQ_INSERT_HEAD(&block->leases, lease, block_link);
        LIST_INSERT_HEAD(&client->leases, lease, client_link);
}

/* For a limit's sake it may have been revoked for somebody else. */
static bool has_limits(const struct model *model)
{
        return policy_limits(model->policy) != NULL;
}

/* What was taken from a client is not taken back at once, unless it costs nothing or there is no time. */
static void check_taken(struct model *model, const struct model_request *request,
                        struct model_block *block, bool known)
{
        bool is_taken_back = block->taken_from == request->client &&
                             model->now_ns < block->taken_ns + IDLE_BACK_NS;

        if (is_taken_back && !known && model->kind == MODEL_EXACT && !has_limits(model))
                must(model, request->ask.deadline_ns <= model->now_ns);
        model->n_taken_back += block->taken_from == request->client;
        block->taken_from = block->lost_by;
        block->taken_ns = model->now_ns;
}

static void take_grant(struct model *model, const struct order *order)
{
        struct model_request *request = request_of(model, order);
        struct model_block *block = block_of(model, order);

        must(model, block->uid == request->client->uid);
        must(model, model_serves(block, request));
        must(model, !request->failure && !block->spoiled);
        must(model, model->kind == MODEL_LAZY || !request->cancelled);
        must(model, block_backing(order->block) == block);
        must(model, order->known == (request->ask.known_will_do && maps(request->client, block)));
        model->n_known += order->known;
        if (block->state == MODEL_CACHED && block->was_idle)
                check_taken(model, request, block, order->known);
        if (block->state == MODEL_CACHED) {
                must(model, !request->block);
                if (model->kind == MODEL_EXACT) {
                        check_choice(model, request, block);
                        must(model, !model_limit_by(model, request->client, block));
                }
                model->pools[block->pool].n_grants_from_cache++;
        } else {
                must(model, block->state == MODEL_MADE && block->request == request);
        }
        block->state = MODEL_HELD;
        block->request = NULL;
        request->block = NULL;
        model_add_lease(model, request->client, block, order->lease);
        TAILQ_FIRST(&block->leases)->keeps_mapped = request->ask.keeps_mapped &&
                                                    block->pool == MODEL_PINNED_POOL;
        model_forget_request(model, request);
        model->n_grants++;
}

/* The refusal names the limit as it is. */
static void check_hit(const struct model *model, const struct model_request *request,
                      const struct order *order)
{
        const struct limit_hit *hit = &order->limit;

        must(model, hit->scope == LIMIT_OF_CLIENT || hit->scope == LIMIT_OF_TENANT);
        must(model, order->n_bytes == request->ask.n_bytes);
        if (hit->why == LIMIT_WOULD_BE_PASSED)
                must(model,
                     hit->used + (hit->kind == LIMIT_LEASES ? 1 : order->n_bytes) > hit->max);
}

static void check_limited(const struct model *model, const struct model_request *request,
                          const struct order *order)
{
        check_hit(model, request, order);
        if (model->kind == MODEL_LAZY || model->revoked || model_can_never_be(model, request))
                return;
        must(model, request->ask.deadline_ns <= model->now_ns);
        must(model, model_held(model, request));
}

/* How many blocks there are is checked with the policy's books. */
static void check_too_many(struct model *model, const struct model_request *request,
                           const struct order *order)
{
        must(model, order->outcome == GPUMEM_E_TOO_MANY);
        must(model, request->ask.deadline_ns <= model->now_ns);
        must(model, !request->ask.only_known);
        model->n_short_of_files++;
}

static void check_late(const struct model *model, const struct model_request *request, int outcome)
{
        must(model, request->ask.deadline_ns <= model->now_ns);
        must(model,
             model->kind == MODEL_LAZY ||
                     !model_limit(model, request->client, request->ask.pool, request->ask.n_bytes));
        if (outcome == GPUMEM_E_DEVICE_FULL) {
                must(model, request->device_full);
        } else {
                must(model, outcome == (request->may_wait ? GPUMEM_E_TIMED_OUT : GPUMEM_E_REFUSED));
                must(model, !request->device_full);
        }
        must(model, !request->room_was_there || request->step != model->step ||
                            outcome != GPUMEM_E_REFUSED);
}

/* Who wants a block that the driver would have to make, where it does not answer. */
static void check_stalled(const struct model *model, const struct model_request *request)
{
        must(model, request->ask.deadline_ns <= model->now_ns);
        must(model, model->kind == MODEL_LAZY ||
                            model->pools[request->ask.pool].standing == STANDING_STALLED);
}

/* Nothing that is cached would have done. */
static void check_not_known(const struct model *model, const struct model_request *request)
{
        const struct model_block *block;

        LIST_FOREACH (block, &model->blocks, link) {
                if (model->kind == MODEL_LAZY || block->state != MODEL_CACHED || block->was_idle)
                        continue;
                must(model, block->n_bytes < request->ask.n_bytes ||
                                    !maps(request->client, block) ||
                                    !model_serves(block, request) ||
                                    model_limit_by(model, request->client, block));
        }
}

static void take_refusal(struct model *model, const struct order *order)
{
        struct model_request *request = request_of(model, order);
        int outcome = order->outcome;

        must(model, outcome != 0);
        if (is_refused_for_what_it_is(order)) {
                must(model, !request->block);
                if (!request->outcome && request->predicted)
                        must(model, model->kind == MODEL_LAZY ||
                                            request->ask.n_bytes >
                                                    model->pools[request->ask.pool].max_bytes);
                if (request->ask.pool < MODEL_N_POOLS && !request->outcome && request->predicted &&
                    !request->ask.only_known)
                        model->pools[request->ask.pool].n_refusals++;
                model_forget_request(model, request);
                return;
        }
        if (outcome == GPUMEM_E_CANCELLED) {
                must(model, request->cancelled);
                model_make_for_nobody(model, request);
        } else {
                if (request->failure) {
                        must(model, outcome == request->failure);
                } else if (outcome == GPUMEM_E_LIMIT) {
                        check_limited(model, request, order);
                        model->pools[request->ask.pool].was_limited = true;
                        model->n_limit_refusals++;
                } else if (order->of_blocks) {
                        check_too_many(model, request, order);
                } else if (request->ask.only_known && outcome == GPUMEM_E_REFUSED) {
                        check_not_known(model, request);
                } else if (outcome == GPUMEM_E_STALLED) {
                        check_stalled(model, request);
                } else {
                        must(model,
                             model->kind == MODEL_LAZY ||
                                     model->pools[request->ask.pool].standing == STANDING_SERVES);
                        check_late(model, request, outcome);
                }
                model->n_stalled += outcome == GPUMEM_E_STALLED;
                model->n_lost += outcome == -ENODEV;
                model->pools[request->ask.pool].n_refusals += !request->ask.only_known;
        }
        model_forget_request(model, request);
}

static void take_freed(struct model *model, const struct order *order)
{
        struct model_client *client = client_of(model, order);
        struct model_free_all *free_all;
        struct model_block *block;

        LIST_FOREACH (free_all, &model->free_alls, link) {
                if (free_all->client == client && free_all->serial == order->serial)
                        break;
        }
        must(model, free_all);
        LIST_FOREACH (block, &model->blocks, link) {
                if (block->free_all == free_all && block->state == MODEL_LINGERING &&
                    model->now_ns >= block->let_go_ns + OVERDUE_NS)
                        model_not_freed(block);
        }
        must(model, free_all->n_unreleased == 0);
        must(model, order->n_bytes == free_all->n_bytes);
        must(model, order->n_blocks == free_all->n_blocks);
        LIST_REMOVE(free_all, link);
        free(free_all);
}

static void take_notice(struct model *model, const struct order *order)
{
        struct model_client *client = client_of(model, order);
        struct model_block *block = block_of(model, order);
        struct model_lease *lease;

        must(model, model_speaks(client));
        LIST_FOREACH (lease, &client->leases, client_link) {
                if (lease->id == lease_id(order->lease))
                        break;
        }
        must(model, lease && lease->block == block && lease->revoked && !lease->called_in);
        must(model, block->state == MODEL_RELEASING || block->state == MODEL_LINGERING);
        lease->called_in = true;
        model->n_called_in++;
}

enum order_kind model_take(struct model *model, struct model_block **ret_block)
{
        struct order order = policy_next_order(model->policy);

        model_note_revoked(model);
        switch (order.kind) {
        case ORDER_CREATE:
                *ret_block = take_create(model, &order);
                break;
        case ORDER_RELEASE:
                *ret_block = take_release(model, &order);
                break;
        case ORDER_GRANT:
                take_grant(model, &order);
                break;
        case ORDER_REFUSE:
                take_refusal(model, &order);
                break;
        case ORDER_FREED:
                take_freed(model, &order);
                break;
        case ORDER_NOTICE:
                take_notice(model, &order);
                break;
        case ORDER_MARK:
                /* Whom and when is room's choice: the model knows who can be asked. */
                must(model, model_speaks(client_of(model, &order)));
                break;
        case ORDER_NONE:
                model->settled = true;
                break;
        }
        return order.kind;
}
