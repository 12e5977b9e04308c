/* SPDX-License-Identifier: Apache-2.0 */
/* Who is refused, and why. */
#include "tests/model/policy_model_actions.h"

#include <errno.h>

#include "base/err.h"

bool model_is_refused_for_what_it_is(const struct action *action)
{
        return action->kind == ACTION_REFUSE && !action->of_blocks &&
               (action->outcome == GPUMEM_E_NO_POOL || action->outcome == GPUMEM_E_BAD_REQUEST ||
                action->outcome == GPUMEM_E_TOO_LARGE || action->outcome == GPUMEM_E_TOO_MANY);
}

/* It shows a lack of memory. */
static bool counts(const struct model_request *request)
{
        return !request->ask.only_known && !request->ask.only_cached;
}

/* The refusal names the limit as it is. */
static void check_hit(const struct model *model, const struct model_request *request,
                      const struct action *action)
{
        const struct limit_hit *hit = &action->limit;

        must(model, hit->scope == LIMIT_OF_CLIENT || hit->scope == LIMIT_OF_TENANT);
        must(model, action->n_bytes == request->ask.n_bytes);
        if (hit->why == LIMIT_WOULD_BE_PASSED)
                must(model,
                     hit->used + (hit->kind == LIMIT_LEASES ? 1 : action->n_bytes) > hit->max);
}

static void check_limited(const struct model *model, const struct model_request *request,
                          const struct action *action)
{
        check_hit(model, request, action);
        if (model->kind == MODEL_LAZY || model->revoked || model_can_never_be(model, request))
                return;
        must(model, request->ask.deadline_ns <= model->now_ns);
        must(model, model_held(model, request));
}

/* How many blocks there are is checked with the policy's books. */
static void check_too_many(struct model *model, const struct model_request *request,
                           const struct action *action)
{
        must(model, action->outcome == GPUMEM_E_TOO_MANY);
        must(model, request->ask.deadline_ns <= model->now_ns);
        must(model, !request->ask.only_known && !request->ask.only_cached);
        model->n_short_of_fds++;
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
                            model->pools[request->ask.pool].driver_status == DRIVER_STALLED);
}

/* Nothing that is cached would have done. */
static void check_not_known(const struct model *model, const struct model_request *request)
{
        const struct model_block *block;

        LIST_FOREACH (block, &model->blocks, link) {
                if (model->kind == MODEL_LAZY || block->state != MODEL_CACHED || block->was_idle)
                        continue;
                must(model, block->n_bytes < request->ask.n_bytes ||
                                    !model_maps(request->client, block) ||
                                    !model_serves(block, request) ||
                                    model_limit_by(model, request->client, block));
        }
}

/* The same for one that takes any block that exists. */
static void check_not_cached(const struct model *model, const struct model_request *request)
{
        const struct model_block *block;

        LIST_FOREACH (block, &model->blocks, link) {
                if (model->kind == MODEL_LAZY || block->state != MODEL_CACHED || block->was_idle)
                        continue;
                must(model, !model_serves(block, request) ||
                                    model_limit_by(model, request->client, block));
        }
}

/* Who waited when the end began, or asked since. */
static void take_ended(struct model *model, struct model_request *request)
{
        must(model, model->draining && !request->block);
        if (request->failure == GPUMEM_E_SHUTTING_DOWN)
                model->pools[request->ask.pool].n_refusals += counts(request);
        model_forget_request(model, request);
}

void model_take_refusal(struct model *model, const struct action *action)
{
        struct model_request *request = model_request_of(model, action);
        int outcome = action->outcome;

        must(model, outcome != 0);
        if (outcome == GPUMEM_E_SHUTTING_DOWN) {
                take_ended(model, request);
                return;
        }
        if (model_is_refused_for_what_it_is(action)) {
                must(model, !request->block);
                if (!request->outcome && request->predicted)
                        must(model, model->kind == MODEL_LAZY ||
                                            request->ask.n_bytes >
                                                    model->pools[request->ask.pool].max_bytes);
                if (request->ask.pool < MODEL_N_POOLS && !request->outcome && request->predicted &&
                    counts(request))
                        model->pools[request->ask.pool].n_refusals++;
                model_forget_request(model, request);
                return;
        }
        if (outcome == GPUMEM_E_CANCELLED) {
                must(model, request->cancelled);
                model_make_for_cache(model, request);
        } else {
                if (request->failure) {
                        must(model, outcome == request->failure);
                        model_make_for_cache(model, request);
                } else if (outcome == GPUMEM_E_LIMIT) {
                        check_limited(model, request, action);
                        model->pools[request->ask.pool].was_limited = true;
                        model->n_limit_refusals++;
                } else if (action->of_deadlock) {
                        model_check_deadlock(model, request, outcome);
                } else if (action->of_blocks) {
                        check_too_many(model, request, action);
                } else if (request->ask.only_known && outcome == GPUMEM_E_REFUSED) {
                        check_not_known(model, request);
                } else if (request->ask.only_cached && outcome == GPUMEM_E_REFUSED) {
                        check_not_cached(model, request);
                        model->n_uncached++;
                } else if (outcome == GPUMEM_E_STALLED) {
                        check_stalled(model, request);
                } else {
                        must(model, model->kind == MODEL_LAZY ||
                                            model->pools[request->ask.pool].driver_status ==
                                                    DRIVER_SERVES);
                        check_late(model, request, outcome);
                }
                model->n_stalled += outcome == GPUMEM_E_STALLED;
                model->n_lost += outcome == -ENODEV;
                model->pools[request->ask.pool].n_refusals += counts(request);
        }
        model_forget_request(model, request);
}
