/* Sums, charges and the absence of needless waiting, once no order is left. */
#include "base/err.h"
#include "daemon/policy/overdue.h"
#include "daemon/policy/passing.h"
#include "tests/model/policy_model.h"

static uint64_t n_users(const struct model_block *block)
{
        const struct model_lease *lease;
        uint64_t n = 0;

        TAILQ_FOREACH (lease, &block->leases, block_link)
                n += lease->busy;
        return n;
}

static bool is_expected(const struct model_block *block)
{
        return model_is_mapped(block) &&
               (block->state == MODEL_RELEASING || block->state == MODEL_LINGERING);
}

/* Since the queues were walked last nothing was let go so long ago. */
static bool is_overdue(const struct model *model, const struct model_block *block)
{
        return is_expected(block) && model->now_ns >= block->let_go_ns + OVERDUE_NS;
}

static void compare_figures(struct model *model, uint32_t pool)
{
        const struct model_pool *expected = &model->pools[pool];
        const struct model_block *block;
        const struct model_request *request;
        struct pool_figures figures, sum = {0};

        must(model, policy_pool_figures(model->policy, pool, &figures) == 0);
        LIST_FOREACH (block, &model->blocks, link) {
                if (block->pool != pool)
                        continue;
                sum.n_blocks++;
                sum.n_leases += n_users(block);
                if (block->state == MODEL_MAKING || block->state == MODEL_HELD)
                        sum.leased += block->n_bytes;
                else if (block->state == MODEL_STOCKING || block->state == MODEL_CACHED)
                        sum.cached += block->n_bytes;
                else
                        sum.lingering += block->n_bytes;
                sum.overdue += is_overdue(model, block) ? block->n_bytes : 0;
                must(model, block->state != MODEL_MADE);
                must(model, block->state != MODEL_RELEASING || block->release_ordered);
        }
        TAILQ_FOREACH (request, &model->requests, link)
                sum.n_waiting += request->ask.pool == pool;
        must(model, figures.max == expected->max_bytes);
        must(model, figures.leased == sum.leased);
        must(model, figures.cached == sum.cached);
        must(model, figures.lingering == sum.lingering);
        must(model, figures.reserved == sum.leased + sum.cached + sum.lingering);
        must(model, figures.reserved <= figures.reserved_peak);
        must(model, figures.reserved <= figures.max || figures.reserved <= expected->max_since ||
                            figures.reserved <= expected->last_reserved);
        must(model, figures.n_blocks == sum.n_blocks && figures.n_leases == sum.n_leases);
        must(model, figures.n_waiting == sum.n_waiting);
        must(model, figures.n_creates == expected->n_creates);
        must(model, figures.n_releases == expected->n_releases);
        if (model->kind == MODEL_LAZY)
                return;
        must(model, figures.overdue == sum.overdue);
        model->n_overdue += sum.overdue > 0;
        must(model, figures.n_refusals == expected->n_refusals);
        must(model, figures.n_grants_from_cache == expected->n_grants_from_cache);
}

/* Whose revoked block is wanted back has been told so. */
static void check_called_in(struct model *model)
{
        const struct model_client *client;
        const struct model_lease *lease;

        LIST_FOREACH (client, &model->clients, link) {
                LIST_FOREACH (lease, &client->leases, client_link) {
                        const struct model_block *block = lease->block;

                        if (lease->revoked && model_speaks(client) &&
                            (block->state == MODEL_RELEASING || block->state == MODEL_LINGERING))
                                must(model, lease->called_in);
                }
        }
}

/* Who has had it last of those that do not unmap it, or gave it back and have not said that they did. */
static const struct model_client *mapper_that_pays(const struct model_block *block)
{
        const struct model_lease *lease;

        TAILQ_FOREACH (lease, &block->leases, block_link) {
                if (lease->keeps_mapped || (!lease->busy && !lease->revoked))
                        return lease->client;
        }
        return NULL;
}

/* The one it is made for, the one who holds it longest, or who may still map it. */
const struct model_client *model_payer(const struct model_block *block)
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
                return mapper_that_pays(block);
        case MODEL_STOCKING:
        case MODEL_MADE:
                break;
        }
        return NULL;
}

static void compare_charges(struct model *model, uint32_t pool)
{
        const struct model_client *client;
        const struct model_block *block;
        struct pool_figures figures;
        uint64_t n_charged_bytes = 0;

        LIST_FOREACH (client, &model->clients, link) {
                uint64_t n_bytes = 0;

                LIST_FOREACH (block, &model->blocks, link)
                        n_bytes += block->pool == pool && model_payer(block) == client
                                           ? block->n_bytes
                                           : 0;
                must(model, client_charged(client->client, pool) == n_bytes);
                n_charged_bytes += n_bytes;
        }
        must(model, policy_pool_figures(model->policy, pool, &figures) == 0);
        must(model, figures.charged == n_charged_bytes);
}

/* No cached block lies about that serves somebody who waits. */
static void check_cache_is_used(struct model *model, const struct model_request *request)
{
        const struct model_block *block;

        LIST_FOREACH (block, &model->blocks, link) {
                if (block->state == MODEL_CACHED && model_serves(block, request))
                        must(model,
                             model_limit(model, request->client, block->pool, block->n_bytes));
        }
}

/* Nobody waits for a limit while a block that is his already would do. */
static void check_own_is_used(struct model *model, const struct model_request *request)
{
        const struct model_block *block;

        LIST_FOREACH (block, &model->blocks, link) {
                if (block->state == MODEL_CACHED && model_payer(block) == request->client)
                        must(model, !model_serves(block, request) ||
                                            block->n_bytes < request->ask.n_bytes);
        }
}

/* Whose turn is first: the tenant's that was given least; of several the one that asked first. */
static const struct model_request *first_in_turn(const struct model *model, uint32_t pool)
{
        const uint64_t *n_given_bytes = model->pools[pool].n_given_bytes;
        const struct model_request *request, *first = NULL;

        TAILQ_FOREACH (request, &model->requests, link) {
                if (request->ask.pool != pool || request->block || model_held(model, request))
                        continue;
                if (!first ||
                    n_given_bytes[request->client->uid] < n_given_bytes[first->client->uid])
                        first = request;
        }
        return first;
}

/* The first in a line gets what room there is, and what can be made. With the worker idle nothing
 * is on its way, so it is in want of others' deeds. */
static void check_first_must_wait(struct model *model, const struct model_request *request)
{
        uint32_t pool = request->ask.pool;
        uint64_t n_bytes = model_evictable(model, pool) + model->pools[pool].max_bytes;

        if (request->device_full && request->n_backs == model->pools[pool].n_backs)
                must(model, model_evictable(model, pool) == 0);
        else
                must(model, request->ask.n_bytes + model_reserved(model, pool) > n_bytes);
}

/* When the next of what was let go is overdue, as far as it is known when that was. */
static uint64_t next_overdue(const struct model *model, uint32_t pool)
{
        const struct model_block *block;
        uint64_t earliest_ns = UINT64_MAX;

        if (model->kind == MODEL_LAZY)
                return earliest_ns;
        LIST_FOREACH (block, &model->blocks, link) {
                if (block->pool == pool && is_expected(block) && !is_overdue(model, block) &&
                    block->let_go_ns + OVERDUE_NS < earliest_ns)
                        earliest_ns = block->let_go_ns + OVERDUE_NS;
        }
        return earliest_ns;
}

/* A free_all waits until a block is unmapped. */
static bool is_awaited(const struct model *model, uint32_t pool)
{
        const struct model_block *block;

        LIST_FOREACH (block, &model->blocks, link) {
                if (block->pool == pool && block->state == MODEL_LINGERING && block->free_all &&
                    !is_overdue(model, block))
                        return true;
        }
        return false;
}

static uint64_t earlier(uint64_t a_ns, uint64_t b_ns)
{
        return a_ns < b_ns ? a_ns : b_ns;
}

static void check_waiting(struct model *model)
{
        uint64_t earliest_ns = policy_next_deadline(model->policy), expected_ns = UINT64_MAX;
        const struct model_request *request, *first[MODEL_N_POOLS];
        uint64_t overdue_ns[MODEL_N_POOLS];
        bool is_idle = true;

        for (uint32_t i = 0; i < MODEL_N_POOLS; i++) {
                overdue_ns[i] = next_overdue(model, i);
                if (is_awaited(model, i))
                        expected_ns = earlier(expected_ns, overdue_ns[i]);
                is_idle = is_idle && model->pools[i].n_jobs == 0;
                first[i] = model->kind == MODEL_EXACT && !model->unserved ? first_in_turn(model, i)
                                                                          : NULL;
        }
        TAILQ_FOREACH (request, &model->requests, link) {
                uint32_t pool = request->ask.pool;

                must(model, !request->cancelled && !request->failure);
                must(model, !request->predicted || !request->outcome);
                must(model, model->pools[pool].standing != STANDING_LOST);
                if (request->block && model->pools[pool].standing == STANDING_SERVES)
                        continue;
                if (request->block) {
                        must(model, request->ask.deadline_ns > model->now_ns);
                        expected_ns = earlier(expected_ns, request->ask.deadline_ns);
                        expected_ns = earlier(expected_ns, overdue_ns[pool]);
                        continue;
                }
                /* A charge may have shifted a wait from the tenant's limit to one client's. */
                if (!model->unserved && !model_held(model, request))
                        check_cache_is_used(model, request);
                if (!model->unserved)
                        check_own_is_used(model, request);
                expected_ns = earlier(expected_ns, request->ask.deadline_ns);
                expected_ns = earlier(expected_ns, overdue_ns[pool]);
                /* A file may come from any pool. */
                if (model->pools[pool].n_jobs || (model->few_files && !is_idle))
                        continue;
                must(model, request->ask.deadline_ns > model->now_ns);
                must(model, !model_can_never_be(model, request));
                if (model_held(model, request))
                        continue;
                must(model, request->ask.n_bytes <= model->pools[pool].max_bytes);
                if (request == first[pool] && model->pools[pool].standing == STANDING_SERVES)
                        check_first_must_wait(model, request);
        }
        /* Where somebody waits, others may be held up for so long at most, and be looked at then. */
        must(model, earliest_ns > model->now_ns);
        if (earliest_ns < expected_ns && !TAILQ_EMPTY(&model->requests) &&
            earliest_ns <= model->now_ns + PASSING_HOLD_NS)
                return;
        must(model, model->kind == MODEL_LAZY || earliest_ns >= expected_ns);
        must(model, !is_idle || earliest_ns <= expected_ns);
}

/* Room made beside a new block passes no limit: what its mapper had no room for, once charged with it, was
 * passed over. With leases revoked, charges may have fallen since. */
static bool was_passed_over(const struct model *model, const struct model_block *block)
{
        if (!model->pools[block->pool].was_ordered || block->pool == MODEL_PINNED_POOL ||
            model_mapped(block) != MODEL_MAPPED)
                return false;
        return model->revoked ||
               model_limit(model, TAILQ_FIRST(&block->leases)->client, block->pool, block->n_bytes);
}

/* What was let go was the oldest of its tenant and kind. Those that were revoked for one request are as
 * old as each other. */
static void check_oldest_went(struct model *model, const struct model_block *evicted)
{
        const struct model_block *block;

        LIST_FOREACH (block, &model->blocks, link) {
                if (block->state != MODEL_CACHED || block->pool != evicted->pool ||
                    block->uid != evicted->uid || model_mapped(block) != model_mapped(evicted))
                        continue;
                must(model,
                     block->cached_at >= evicted->cached_at || was_passed_over(model, block));
        }
}

/* With one request in the queue it is known whom the room is for: its own tenant's blocks went
 * before those of others, of others' the oldest, and none too many. */
static void check_order_of_tenants(struct model *model, const struct model_block *evicted,
                                   const struct model_request *asker)
{
        const struct model_block *block;

        LIST_FOREACH (block, &model->blocks, link) {
                if (block->state != MODEL_CACHED || block->pool != evicted->pool ||
                    model_mapped(block) != model_mapped(evicted))
                        continue;
                if (evicted->uid == asker->client->uid)
                        continue;
                must(model, block->uid != asker->client->uid);
                must(model, block->cached_at >= evicted->cached_at);
        }
}

static void check_no_waste(struct model *model, const struct model_block *last,
                           const struct model_request *asker)
{
        uint64_t n_bytes = model->pools[last->pool].max_bytes + model_incoming(model, last->pool);

        if (!asker->device_full && !model_is_mapped(last))
                must(model, n_bytes < asker->ask.n_bytes + last->n_bytes +
                                              model_reserved(model, last->pool));
}

static const struct model_request *first_in_queue(const struct model *model, uint32_t pool)
{
        const struct model_request *request;

        TAILQ_FOREACH (request, &model->requests, link) {
                if (request->ask.pool == pool && !request->block)
                        return request;
        }
        return NULL;
}

static void check_evictions(struct model *model)
{
        struct model_block *block;

        LIST_FOREACH (block, &model->blocks, link) {
                const struct model_request *asker = first_in_queue(model, block->pool);

                if (!block->evicted)
                        continue;
                block->evicted = false;
                if (model->kind == MODEL_LAZY || block->was_idle)
                        continue;
                check_oldest_went(model, block);
                if (model->pools[block->pool].was_trimmed || model->pools[block->pool].was_limited)
                        continue;
                if (model->pools[block->pool].was_ordered && block->pool != MODEL_PINNED_POOL)
                        continue;
                /* What was revoked for another request may have served the one that it was for. */
                if (model->revoked)
                        continue;
                must(model, asker);
                if (model_n_queued(model, block->pool) > 1)
                        continue;
                check_order_of_tenants(model, block, asker);
                if (block == model->pools[block->pool].evicted_last)
                        check_no_waste(model, block, asker);
        }
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
        expected->was_ordered = false;
}

static void forget_revoked(struct model *model)
{
        struct model_block *block;

        LIST_FOREACH (block, &model->blocks, link)
                block->was_idle = false;
        model->revoked = false;
}

void model_compare(struct model *model)
{
        must(model, model->settled);
        for (uint32_t i = 0; i < MODEL_N_POOLS; i++) {
                compare_figures(model, i);
                compare_charges(model, i);
        }
        check_waiting(model);
        check_evictions(model);
        check_called_in(model);
        forget_revoked(model);
        for (uint32_t i = 0; i < MODEL_N_POOLS; i++)
                begin_anew(model, i);
}
