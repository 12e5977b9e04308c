/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/pools/driver_jobs.h"

#include <stdlib.h>

#include "base/err.h"

/* A block's memory, and for whom its job is done. */
struct driver_block {
        struct backing_block backing;
        struct server *server;
        uint32_t pool;
        struct payer *payer;           /* of the job under way */
        LIST_ENTRY(driver_block) link; /* while there is one */
        struct task end;               /* in the payer's list when the job is finished */
};

static struct driver_block *driver_block_of(struct job *job)
{
        return CONTAINER_OF(job->block, struct driver_block, backing);
}

static void end_job(struct task *task)
{
        struct driver_block *block = CONTAINER_OF(task, struct driver_block, end);
        struct server *server = block->server;
        struct payer *payer = steal_ptr(block->payer);
        uint32_t pool = block->pool;

        LIST_REMOVE(block, link);
        TAILQ_REMOVE(&server->jobs.finished, &block->backing.job, link);
        server->pools[pool].n_jobs--;
        server->end_job(server, pool, &block->backing.job);
        payer_unref(payer);
        server_execute(server);
}

struct backing_block *driver_jobs_new_block(struct server *server, uint32_t pool, uint64_t n_bytes)
{
        struct driver_block *block = calloc(1, sizeof(*block));

        if (!block)
                return NULL;
        block->server = server;
        block->pool = pool;
        block->end.step = end_job;
        block->backing.n_bytes = n_bytes;
        block->backing.fd = -1;
        return &block->backing;
}

struct backing_block *driver_jobs_free_block(struct backing_block *block)
{
        if (block)
                free(CONTAINER_OF(block, struct driver_block, backing));
        return NULL;
}

struct payer *driver_jobs_payer_now(struct server *server)
{
        return server->scheduler.payer ? server->scheduler.payer : &server->scheduler.node;
}

void driver_jobs_submit(struct server *server, uint32_t pool, struct payer *payer, struct job *job)
{
        struct driver_block *block = driver_block_of(job);

        LIST_INSERT_HEAD(&server->jobs.under_way, block, link);
        payer_ref(payer);
        block->payer = payer;
        if (!job->user)
                job->user = payer->owner;
        server->pools[pool].n_jobs++;
        worker_submit(server->pools[pool].worker, job);
}

/* Returns whether there was one. */
static bool take_one(struct server *server, uint32_t pool)
{
        struct job *job = worker_take_done(server->pools[pool].worker);
        struct driver_block *block;

        if (!job)
                return false;
        block = driver_block_of(job);
        TAILQ_INSERT_TAIL(&server->jobs.finished, job, link);
        payer_put(block->payer, &block->end);
        return true;
}

/* What the loop does for none: to give each its payer. */
static void take_some(struct task *task)
{
        struct server *server = CONTAINER_OF(task, struct server, jobs.taking);
        unsigned n_left = PART_ITEMS;

        for (uint32_t i = 0; i < server->n_pools; i++) {
                while (n_left && take_one(server, i))
                        n_left--;
        }
        if (!n_left)
                payer_put(&server->scheduler.node, task);
}

void driver_jobs_open(struct server *server)
{
        LIST_INIT(&server->jobs.under_way);
        TAILQ_INIT(&server->jobs.finished);
        server->jobs.taking.step = take_some;
}

static void end_finished(struct server *server)
{
        struct job *job;

        while ((job = TAILQ_FIRST(&server->jobs.finished))) {
                struct driver_block *block = driver_block_of(job);

                payer_take_out(&block->end);
                end_job(&block->end);
        }
}

void driver_jobs_wake(struct server *server)
{
        if (!server->stopping) {
                payer_put(&server->scheduler.node, &server->jobs.taking);
                return;
        }
        for (uint32_t i = 0; i < server->n_pools; i++) {
                while (take_one(server, i))
                        end_finished(server);
        }
}

void driver_jobs_stop(struct server *server)
{
        payer_take_out(&server->jobs.taking);
        end_finished(server);
        driver_jobs_wake(server);
}

void driver_jobs_forget(struct server *server)
{
        struct driver_block *block;

        while ((block = LIST_FIRST(&server->jobs.under_way))) {
                LIST_REMOVE(block, link);
                payer_unref(block->payer);
        }
}
