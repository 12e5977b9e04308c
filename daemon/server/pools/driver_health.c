/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/pools/driver_health.h"

#include <inttypes.h>

#include "base/err.h"
#include "daemon/server/pools/prewarming.h"
#include "daemon/server/pools/driver_jobs.h"
#include "daemon/server/pools/release_retry.h"
#include "daemon/server/session/event_log.h"
#include "daemon/server/session/session.h"

#define LOOK_MS 250

/* Clients that are told in a step: a message takes as long as a few requests. */
#define TOLD_A_STEP 16

static void log_change(const struct server_pool *pool, const struct driver_state *before,
                       uint64_t now_ns)
{
        double seconds = (double)(now_ns - before->since_ns) / 1e9;

        switch (pool->driver.state.status) {
        case DRIVER_STALLED:
                log_error("pool %" PRIu32 " (%s): the driver does not answer; serving cached "
                          "blocks only until it does",
                          pool->row.id, pool->row.name);
                break;
        case DRIVER_LOST:
                log_error("pool %" PRIu32 " (%s): device lost; refusing requests until it "
                          "recovers; its cached blocks are discarded",
                          pool->row.id, pool->row.name);
                break;
        case DRIVER_SERVES:
                log_info("pool %" PRIu32 " (%s): the driver answers again, after %.1f s",
                         pool->row.id, pool->row.name, seconds);
                break;
        }
}

static void note(struct server *server, const struct server_pool *pool,
                 const struct driver_state *before)
{
        double seconds = (double)(server_now_ns(server) - before->since_ns) / 1e9;

        switch (pool->driver.state.status) {
        case DRIVER_STALLED:
                event_log_note_node(server, LISTED_EVENT_STALLED, pool->row.id,
                                    "%s: the driver does not answer; only cached blocks are served",
                                    pool->row.name);
                break;
        case DRIVER_LOST:
                event_log_note_node(server, LISTED_EVENT_LOST, pool->row.id,
                                    "%s: the device is lost; requests are refused", pool->row.name);
                break;
        case DRIVER_SERVES:
                event_log_note_node(server, LISTED_EVENT_BACK, pool->row.id,
                                    "%s: the driver answers again, after %.1f s", pool->row.name,
                                    seconds);
                break;
        }
}

static void tell(struct session *session, uint32_t id, uint32_t what)
{
        struct frame frame = FRAME_NULL;

        if (session->state != SESSION_READY || !(session->features & PROTO_FEATURE_LOSS))
                return;
        frame.notice.what = what;
        frame.notice.lease = id;
        session_send(session, &frame, MESSAGE_NOTICE, 0, NULL, 0);
}

/* The node pays: the driver is at fault. */
static void tell_some(struct task *task)
{
        struct server_pool *pool = CONTAINER_OF(task, struct server_pool, driver.telling);
        struct server *server = pool->driver.server;
        struct session *session;

        numbered_go_on(&pool->driver.told, TOLD_A_STEP);
        while ((session = numbered_next(&server->sessions_by_number, &pool->driver.told)))
                tell(session, pool->row.id, pool->driver.notice);
        if (!numbered_is_over(&server->sessions_by_number, &pool->driver.told))
                payer_put(&server->scheduler.node, task);
}

/* One that was not told of the state before this one is told of this one only. */
static void tell_all(struct server *server, uint32_t id, uint32_t what)
{
        struct server_pool *pool = &server->pools[id];

        if (server->stopping)
                return;
        pool->driver.server = server;
        pool->driver.notice = what;
        pool->driver.told = (struct numbered_walk){.next = 0};
        pool->driver.telling.step = tell_some;
        payer_put(&server->scheduler.node, &pool->driver.telling);
}

static void change(struct server *server, uint32_t id, const struct driver_state *before)
{
        struct server_pool *pool = &server->pools[id];
        uint64_t now_ns = server_now_ns(server);

        log_change(pool, before, now_ns);
        note(server, pool, before);
        if (pool->driver.state.status != DRIVER_SERVES)
                prewarming_stop(server, id, "the driver does not answer, or the device is lost");
        if (!server->stopping)
                (void)policy_set_driver_status(server->policy, id, pool->driver.state.status,
                                               now_ns);
        if (before->status == DRIVER_LOST) {
                release_retry_try_all(server, id);
                tell_all(server, id, PROTO_NOTICE_BACK);
        } else if (pool->driver.state.status == DRIVER_LOST)
                tell_all(server, id, PROTO_NOTICE_LOST);
        server_execute(server);
}

/* Notes a job's result. A job that was kept for a retry has been noted already. */
static bool note_result(struct server *server, struct driver_state *state, const struct job *job)
{
        const struct backing_block *block = job->block;

        if (job->kind != JOB_RELEASE)
                return driver_state_note_result(state, job->result, server_now_ns(server));
        return !block->life.n_failures &&
               driver_state_note_release(state, block->life.n_losses, job->result,
                                         server_now_ns(server));
}

void driver_health_note_job(struct server *server, uint32_t id, const struct job *job)
{
        struct driver_state *state = &server->pools[id].driver.state, before = *state;

        if (worker_needs_driver(server->pools[id].worker) && note_result(server, state, job))
                change(server, id, &before);
}

void driver_health_note_nvml(struct server *server, uint32_t id, bool says_lost)
{
        struct driver_state *state = &server->pools[id].driver.state, before = *state;

        if (driver_state_see_nvml(state, says_lost, server_now_ns(server)))
                change(server, id, &before);
}

static void try_again(struct server *server, uint32_t id)
{
        struct server_pool *pool = &server->pools[id];
        struct backing_block *block;

        if (pool->driver.is_tried ||
            !driver_state_take_try(&pool->driver.state, pool->driver.n_trials_kept,
                                   server_now_ns(server)))
                return;
        block = driver_jobs_new_block(server, id, BACKING_TRY_BYTES);
        if (!block)
                return;
        pool->driver.is_tried = true;
        block->job = (struct job){.kind = JOB_TRY, .block = block};
        driver_health_submit(server, id, &server->scheduler.node, &block->job);
}

void driver_health_end_try(struct server *server, uint32_t id, struct job *job)
{
        server->pools[id].driver.is_tried = false;
        if (!job->block->handle || !release_retry_keep(server, id, job))
                driver_jobs_free_block(job->block);
}

/* Returns whether the driver must be watched further. */
static bool look(struct server *server, uint32_t id)
{
        struct server_pool *pool = &server->pools[id];
        struct driver_state *state = &pool->driver.state, before = *state;
        uint64_t now_ns = server_now_ns(server);

        if (driver_state_see_call(state, worker_late_since(pool->worker, now_ns), now_ns))
                change(server, id, &before);
        if (server->stopping)
                return pool->n_jobs;
        try_again(server, id);
        return pool->n_jobs || state->is_lost_by_call || !TAILQ_EMPTY(&pool->driver.retries);
}

static void on_look(uv_timer_t *timer)
{
        struct server *server = CONTAINER_OF(timer, struct server, driver_health_timer);
        bool goes_on = false;

        for (uint32_t i = 0; i < server->n_pools; i++) {
                release_retry_try(server, i);
                goes_on = look(server, i) || goes_on;
        }
        if (!goes_on)
                (void)uv_timer_stop(timer);
}

void driver_health_watch(struct server *server)
{
        if (!uv_is_active((uv_handle_t *)&server->driver_health_timer))
                (void)uv_timer_start(&server->driver_health_timer, on_look, LOOK_MS, LOOK_MS);
}

void driver_health_submit(struct server *server, uint32_t pool, struct payer *payer,
                          struct job *job)
{
        driver_jobs_submit(server, pool, payer, job);
        driver_health_watch(server);
}

void driver_health_stop(struct server *server, uint32_t id)
{
        payer_take_out(&server->pools[id].driver.telling);
}

void driver_health_fill(const struct server *server, uint32_t id, struct stats_row *row)
{
        static const uint64_t states[] = {
                [DRIVER_SERVES] = PROTO_DRIVER_ANSWERS,
                [DRIVER_STALLED] = PROTO_DRIVER_STALLED,
                [DRIVER_LOST] = PROTO_DRIVER_LOST,
        };
        const struct driver_state *state = &server->pools[id].driver.state;

        row->driver = states[state->status];
        row->driver_for = state->since_ns ? (server_now_ns(server) - state->since_ns) / NS_PER_MS
                                          : 0;
}
