/* SPDX-License-Identifier: Apache-2.0 */
/* Stands for the pools' workers and the driver behind them: jobs of a pool are done in order, some time later, some in
 * vain. The driver's memory is what the pool's limit says, less what strangers use of it at the moment. */
#pragma once

#include "tests/model/policy_model.h"
#include "tests/model/random.h"

struct worker {
        struct {
                TAILQ_HEAD(worker_jobs, model_block) jobs;
                uint64_t n_strangers_bytes;
        } pools[MODEL_N_POOLS];
};

void worker_init(struct worker *worker);
void worker_add(struct worker *worker, struct model_block *block, enum action_kind kind);

/* Whether there was a job to do in the pool. */
bool worker_do_one(struct worker *worker, struct model *model, struct random *random,
                   uint32_t pool);

void worker_change_strangers(struct worker *worker, const struct model *model,
                             struct random *random);
