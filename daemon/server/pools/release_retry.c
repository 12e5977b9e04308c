/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/pools/release_retry.h"

#include <inttypes.h>

#include "base/err.h"
#include "daemon/server/pools/driver_health.h"
#include "daemon/server/session/event_log.h"

static bool is_trial(const struct job *job)
{
        return !job->owner && job->block->life.is_trial;
}

static void set_unreleasable(struct server *server, uint32_t id, uint64_t n_bytes)
{
        server->pools[id].driver.n_unreleasable_bytes = n_bytes;
        (void)policy_set_unreleasable(server->policy, id, n_bytes, server_now_ns(server));
}

/* Turns a job into a release. */
static void adopt(struct server *server, uint32_t id, struct job *job)
{
        struct server_pool *pool = &server->pools[id];

        job->user = 0;
        if (job->kind != JOB_RELEASE) {
                job->owner = NULL;
                job->block->life.is_trial = job->kind == JOB_TRY;
                job->kind = JOB_RELEASE;
                pool->driver.n_trials_kept += is_trial(job);
                set_unreleasable(server, id,
                                 pool->driver.n_unreleasable_bytes + job->block->n_bytes);
        } else if (job->owner) {
                policy_not_released(server->policy, job->owner, server_now_ns(server));
        }
}

/* Logs the first failure since the last successful release. */
static void log_failure(struct server *server, struct server_pool *pool, const struct job *job)
{
        if (pool->driver.logged_unreleased)
                return;
        pool->driver.logged_unreleased = true;
        log_error("pool %" PRIu32 " (%s): the driver did not take back %" PRIu64
                  " bytes; retrying: %s",
                  pool->row.id, pool->row.name, job->block->n_bytes, job->failure);
        event_log_note_node(server, LISTED_EVENT_STUCK, pool->row.id,
                            "%s: the driver did not take back %" PRIu64 " bytes; retrying",
                            pool->row.name, job->block->n_bytes);
}

bool release_retry_keep(struct server *server, uint32_t id, struct job *job)
{
        struct server_pool *pool = &server->pools[id];
        struct backing_block *block = job->block;

        if (server->stopping)
                return false;
        log_failure(server, pool, job);
        adopt(server, id, job);
        block->life.retry_ns = driver_state_next_release(&pool->driver.state, block->life.n_losses,
                                                         ++block->life.n_failures,
                                                         server_now_ns(server));
        TAILQ_INSERT_TAIL(&pool->driver.retries, job, link);
        pool->driver.n_retries++;
        driver_health_watch(server);
        return true;
}

void release_retry_forget(struct server *server, uint32_t id, const struct job *job)
{
        struct server_pool *pool = &server->pools[id];

        if (job->owner)
                return;
        pool->driver.n_trials_kept -= is_trial(job);
        set_unreleasable(server, id, pool->driver.n_unreleasable_bytes - job->block->n_bytes);
}

/* Those that are not due move to the end of the list. */
static void try_first(struct server *server, uint32_t id, uint64_t until_ns)
{
        struct job_queue *jobs = &server->pools[id].driver.retries;
        struct job *job = TAILQ_FIRST(jobs);

        TAILQ_REMOVE(jobs, job, link);
        if (job->block->life.retry_ns > until_ns) {
                TAILQ_INSERT_TAIL(jobs, job, link);
                return;
        }
        server->pools[id].driver.n_retries--;
        driver_health_submit(server, id, &server->scheduler.node, job);
}

/* The node pays: the driver is at fault. */
static void try_some(struct task *task)
{
        struct server_pool *pool = CONTAINER_OF(task, struct server_pool, driver.retrying);
        struct server *server = pool->driver.server;

        for (unsigned n = 0; n < PART_ITEMS && pool->driver.n_to_look_at; n++) {
                pool->driver.n_to_look_at--;
                try_first(server, pool->row.id, pool->driver.until_ns);
        }
        if (pool->driver.n_to_look_at)
                payer_put(&server->scheduler.node, task);
}

static void try_until(struct server *server, uint32_t id, uint64_t until_ns)
{
        struct server_pool *pool = &server->pools[id];

        pool->driver.n_to_look_at = pool->driver.n_retries;
        pool->driver.until_ns = until_ns;
        if (!pool->driver.n_to_look_at)
                return;
        pool->driver.server = server;
        pool->driver.retrying.step = try_some;
        payer_put(&server->scheduler.node, &pool->driver.retrying);
}

void release_retry_try(struct server *server, uint32_t id)
{
        if (!server->pools[id].driver.retrying.payer)
                try_until(server, id, server_now_ns(server));
}

void release_retry_try_all(struct server *server, uint32_t id)
{
        try_until(server, id, UINT64_MAX);
}

void release_retry_stop(struct server *server, uint32_t id)
{
        payer_take_out(&server->pools[id].driver.retrying);
        while (server->pools[id].driver.n_retries)
                try_first(server, id, UINT64_MAX);
}
