/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/model/policy_worker.h"

#include <errno.h>

void worker_init(struct worker *worker)
{
        for (uint32_t i = 0; i < MODEL_N_POOLS; i++) {
                TAILQ_INIT(&worker->pools[i].jobs);
                worker->pools[i].n_strangers_bytes = 0;
        }
}

void worker_add(struct worker *worker, struct model_block *block, enum action_kind kind)
{
        block->job = kind;
        TAILQ_INSERT_TAIL(&worker->pools[block->pool].jobs, block, job_link);
}

static uint64_t used_bytes(const struct model *model, uint32_t pool)
{
        const struct model_block *block;
        uint64_t n_bytes = 0;

        LIST_FOREACH (block, &model->blocks, link) {
                if (block->pool == pool && block->state != MODEL_MAKING &&
                    block->state != MODEL_CREATING_FOR_CACHE)
                        n_bytes += block->n_bytes;
        }
        return n_bytes;
}

static int create(const struct worker *worker, const struct model *model, struct random *random,
                  const struct model_block *block)
{
        uint64_t n_bytes = used_bytes(model, block->pool) + block->n_bytes +
                           worker->pools[block->pool].n_strangers_bytes;

        if (n_bytes > model->pools[block->pool].n_device_bytes)
                return GPUMEM_E_DEVICE_FULL;
        switch (random_below(random, 50)) {
        case 0:
                return GPUMEM_E_DRIVER;
        case 1:
                return -EIO;
        default:
                return 0;
        }
}

/* What the driver does not take back is tried again, after the others. */
static void release(struct worker *worker, struct model *model, struct random *random,
                    struct model_block *block)
{
        if (random_below(random, 20)) {
                model_released(model, block);
                return;
        }
        model_not_released(model, block);
        worker_add(worker, block, ACTION_RELEASE);
}

bool worker_do_one(struct worker *worker, struct model *model, struct random *random, uint32_t pool)
{
        struct model_block *block = TAILQ_FIRST(&worker->pools[pool].jobs);

        if (!block)
                return false;
        TAILQ_REMOVE(&worker->pools[pool].jobs, block, job_link);
        if (block->job == ACTION_CREATE)
                model_created(model, block, create(worker, model, random, block));
        else
                release(worker, model, random, block);
        return true;
}

void worker_change_strangers(struct worker *worker, const struct model *model,
                             struct random *random)
{
        uint32_t pool = (uint32_t)random_below(random, MODEL_N_POOLS);
        uint64_t most = model->pools[pool].n_device_bytes / 3;

        /* Half of the time there are none. */
        worker->pools[pool].n_strangers_bytes = random_below(random, 2) ? random_below(random, most)
                                                                        : 0;
}
