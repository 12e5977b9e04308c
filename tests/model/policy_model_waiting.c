/* SPDX-License-Identifier: Apache-2.0 */
/* The absence of needless waiting, once no action is left. */
#include "daemon/policy/objects/unmap_timeout.h"
#include "daemon/policy/scheduling/backfill.h"
#include "tests/model/policy_model_compare.h"

/* No cached block is left that would serve a waiting request. */
static void check_cache_is_used(struct model *model, const struct model_request *request)
{
        const struct model_block *block;

        LIST_FOREACH (block, &model->blocks, link) {
                if (block->state == MODEL_CACHED && model_serves(block, request))
                        must(model,
                             model_limit(model, request->client, block->pool, block->n_bytes));
        }
}

/* No client waits for a limit while a block that it has already would do. */
static void check_own_is_used(struct model *model, const struct model_request *request)
{
        const struct model_block *block;

        LIST_FOREACH (block, &model->blocks, link) {
                if (block->state == MODEL_CACHED && model_charge_owner(block) == request->client)
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

/* The first in a queue gets what room there is, and what can be made. With the worker idle nothing
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

/* Nor need it wait where one that was prewarmed would do, and a file is there for it. */
static void check_unowned_is_used(struct model *model, const struct model_request *request)
{
        const struct model_block *block;

        if (model->few_fds)
                return;
        LIST_FOREACH (block, &model->blocks, link) {
                if (block->state == MODEL_CACHED && model_would_serve(block, request))
                        must(model,
                             model_limit(model, request->client, block->pool, block->n_bytes));
        }
}

/* When the next of what was released times out, as far as it is known when that was. */
static uint64_t next_timeout(const struct model *model, uint32_t pool)
{
        const struct model_block *block;
        uint64_t earliest_ns = UINT64_MAX;

        if (model->kind == MODEL_LAZY)
                return earliest_ns;
        LIST_FOREACH (block, &model->blocks, link) {
                if (block->pool == pool && model_is_expected(block) &&
                    !model_is_timed_out(model, block) &&
                    block->release_ns + UNMAP_TIMEOUT_NS < earliest_ns)
                        earliest_ns = block->release_ns + UNMAP_TIMEOUT_NS;
        }
        return earliest_ns;
}

/* A release_all waits until a block is unmapped. */
static bool is_awaited(const struct model *model, uint32_t pool)
{
        const struct model_block *block;

        LIST_FOREACH (block, &model->blocks, link) {
                if (block->pool == pool && block->state == MODEL_LINGERING && block->release_all &&
                    !model_is_timed_out(model, block))
                        return true;
        }
        return false;
}

static uint64_t earlier(uint64_t a_ns, uint64_t b_ns)
{
        return a_ns < b_ns ? a_ns : b_ns;
}

void model_check_waiting(struct model *model)
{
        uint64_t earliest_ns = policy_next_deadline(model->policy), expected_ns = UINT64_MAX;
        const struct model_request *request, *first[MODEL_N_POOLS];
        uint64_t timeout_ns[MODEL_N_POOLS];
        bool is_idle = true;

        for (uint32_t i = 0; i < MODEL_N_POOLS; i++) {
                timeout_ns[i] = next_timeout(model, i);
                if (is_awaited(model, i))
                        expected_ns = earlier(expected_ns, timeout_ns[i]);
                is_idle = is_idle && model->pools[i].n_jobs == 0;
                first[i] = model->kind == MODEL_EXACT && !model->unserved ? first_in_turn(model, i)
                                                                          : NULL;
        }
        TAILQ_FOREACH (request, &model->requests, link) {
                uint32_t pool = request->ask.pool;

                must(model, !request->cancelled && !request->failure);
                must(model, !request->predicted || !request->outcome);
                must(model, model->pools[pool].driver_status != DRIVER_LOST);
                if (request->block && model->pools[pool].driver_status == DRIVER_SERVES)
                        continue;
                if (request->block) {
                        must(model, request->ask.deadline_ns > model->now_ns);
                        expected_ns = earlier(expected_ns, request->ask.deadline_ns);
                        expected_ns = earlier(expected_ns, timeout_ns[pool]);
                        continue;
                }
                /* A charge may have shifted a wait from the tenant's limit to one client's. */
                if (!model->unserved && !model_held(model, request))
                        check_cache_is_used(model, request);
                if (!model->unserved)
                        check_own_is_used(model, request);
                expected_ns = earlier(expected_ns, request->ask.deadline_ns);
                expected_ns = earlier(expected_ns, timeout_ns[pool]);
                /* A file may come from any pool. */
                if (model->pools[pool].n_jobs || (model->few_fds && !is_idle))
                        continue;
                must(model, request->ask.deadline_ns > model->now_ns);
                must(model, !model_can_never_be(model, request));
                if (model_held(model, request))
                        continue;
                /* A look may have ended the charge that held it. */
                must(model,
                     model->unserved || request->ask.n_bytes <= model->pools[pool].max_bytes);
                if (request == first[pool])
                        check_unowned_is_used(model, request);
                if (request == first[pool] && model->pools[pool].driver_status == DRIVER_SERVES)
                        check_first_must_wait(model, request);
        }
        /* Where a request waits, others may be held up for so long at most, and be looked at then. */
        must(model, earliest_ns > model->now_ns);
        if (earliest_ns < expected_ns && !TAILQ_EMPTY(&model->requests) &&
            earliest_ns <= model->now_ns + BACKFILL_HOLD_NS)
                return;
        must(model, model->kind == MODEL_LAZY || earliest_ns >= expected_ns);
        must(model, !is_idle || earliest_ns <= expected_ns);
}
