/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of blocks, of the driver and of time, and what it must lead to. */
#include <errno.h>

#include "base/err.h"
#include "daemon/policy/objects/unmap_timeout.h"
#include "tests/model/policy_model.h"

void model_mark_unusable(struct model *model, struct model_lease *lease)
{
        struct model_block *block = lease->block;
        bool is_served = block->state == MODEL_HELD || block->state == MODEL_CACHED;
        struct block *found = policy_leased_block(lease->client->client, lease->id);

        must(model, model->settled);
        must(model, found == (is_served ? block->block : NULL));
        if (!is_served)
                return;
        block->unusable = true;
        if (block->state == MODEL_CACHED)
                model_release(model, block);
        policy_mark_unusable(model->policy, found, model->now_ns);
        model_happened(model);
}

static void could_not_create(struct model *model, struct model_block *block, int result)
{
        struct model_request *request = block->request;

        if (request && result == GPUMEM_E_DEVICE_FULL) {
                request->device_full = true;
                model->pools[block->pool].n_given_bytes[block->uid] -= block->n_bytes;
        } else if (request) {
                request->failure = result;
        }
        model_forget_block(model, block);
}

void model_created(struct model *model, struct model_block *block, int result)
{
        struct block *name = block->block;

        model->pools[block->pool].n_jobs--;
        if (result) {
                could_not_create(model, block, result);
        } else {
                model->pools[block->pool].n_creates++;
                if (block->state == MODEL_CREATING_FOR_CACHE)
                        model_cache(model, block);
                else
                        block->state = MODEL_MADE;
        }
        policy_created(model->policy, name, result, result ? NULL : block, model->now_ns);
        model_happened_and_served(model);
}

void model_released(struct model *model, struct model_block *block)
{
        struct block *name = block->block;

        model->pools[block->pool].n_jobs--;
        model->pools[block->pool].n_releases++;
        if (model_is_mapped(block) && (model_mapped(block) == MODEL_KEPT ||
                                       model->now_ns >= block->release_ns + UNMAP_TIMEOUT_NS))
                model_not_freed(block);
        else if (!model_is_mapped(block))
                model_freed(block);
        if (model_is_mapped(block)) {
                block->state = MODEL_LINGERING;
        } else {
                model->pools[block->pool].n_backs++;
                model_forget_block(model, block);
        }
        policy_released(model->policy, name, model->now_ns);
        model_happened_and_served(model);
}

void model_not_released(struct model *model, struct model_block *block)
{
        block->unreleasable = true;
        model->n_unreleasable++;
        policy_not_released(model->policy, block->block, model->now_ns);
        model_happened_and_served(model);
}

/* A request whose time is over for a block that is being made, where the driver does not answer. Until the policy comes
 * to it, its block is charged, and others may be refused for that. So its block is made for it until its refusal is
 * taken; but with LAZY it may have been made by then. */
static void give_up_on_driver(struct model *model)
{
        struct model_request *request;

        TAILQ_FOREACH (request, &model->requests, link) {
                if (!request->block || request->block->state != MODEL_MAKING ||
                    request->cancelled || request->ask.deadline_ns > model->now_ns ||
                    model->pools[request->ask.pool].driver_status != DRIVER_STALLED)
                        continue;
                request->failure = GPUMEM_E_STALLED;
                if (model->kind == MODEL_LAZY)
                        model_make_for_cache(model, request);
        }
}

/* What is mapped for so long is waited for no more, though it be unmapped before the rest has gone. */
static void give_up_on_mappers(struct model *model)
{
        struct model_block *block;

        LIST_FOREACH (block, &model->blocks, link) {
                if (block->state == MODEL_LINGERING &&
                    model->now_ns >= block->release_ns + UNMAP_TIMEOUT_NS)
                        model_not_freed(block);
        }
}

void model_expire(struct model *model)
{
        give_up_on_mappers(model);
        give_up_on_driver(model);
        policy_expire(model->policy, model->now_ns);
        model_happened_and_served(model);
}

/* No client has any of it any more, nor will, except those that still use it. */
static void lose(struct model *model, uint32_t pool)
{
        struct model_request *request;
        struct model_block *block;

        LIST_FOREACH (block, &model->blocks, link) {
                if (block->pool != pool)
                        continue;
                block->unusable = true;
                if (block->state == MODEL_CACHED)
                        model_release(model, block);
        }
        TAILQ_FOREACH (request, &model->requests, link) {
                if (request->ask.pool != pool)
                        continue;
                request->failure = -ENODEV;
                model_make_for_cache(model, request);
        }
        model->pools[pool].was_trimmed = true;
}

void model_set_driver_status(struct model *model, uint32_t pool, enum driver_status driver_status)
{
        must(model, model->settled);
        model->pools[pool].driver_status = driver_status;
        if (driver_status == DRIVER_LOST)
                lose(model, pool);
        give_up_on_driver(model);
        must(model,
             policy_set_driver_status(model->policy, pool, driver_status, model->now_ns) == 0);
        model_happened_and_served(model);
}

void model_retry(struct model *model, uint32_t pool)
{
        model->pools[pool].n_backs++;
        policy_retry(model->policy, pool, model->now_ns);
        model_happened(model);
}
