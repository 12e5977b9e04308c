/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/requests/execute.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "base/log.h"
#include "daemon/policy/report/listing.h"
#include "daemon/server/pools/aging_timer.h"
#include "daemon/server/pools/device_watch.h"
#include "daemon/server/pools/driver_health.h"
#include "daemon/server/pools/driver_jobs.h"
#include "daemon/server/pools/prewarming.h"
#include "daemon/server/pools/release_retry.h"
#include "daemon/server/requests/reclaim.h"
#include "daemon/server/requests/refusal_facts.h"
#include "daemon/server/session/event_log.h"
#include "daemon/server/session/session.h"
#include "gpumem.h"

/* Interval of retries when the driver had no memory. */
#define RETRY_MS 100

/* Interval of checks for leases that became idle. */
#define LOOK_MS 5

/* For a client's request, or for none. */
static struct payer *payer_of(struct server *server, const struct action *action)
{
        const struct session *session = action->client ? client_owner(action->client) : NULL;

        return session ? session->transport.owner.payer : driver_jobs_payer_now(server);
}

static void create(struct server *server, const struct action *action)
{
        struct block *block = action->block;
        uint32_t pool = block_pool(block);
        bool is_barred = device_watch_is_barred(&server->pools[pool]) ||
                         (action->client &&
                          !device_watch_claim(server, pool, client_tenant_key(action->client)));
        struct backing_block *backing = is_barred ? NULL
                                                  : driver_jobs_new_block(server, pool,
                                                                          block_bytes(block));

        if (!backing) {
                bool is_warm = block_is_unowned(block);

                policy_created(server->policy, block, is_barred ? -ENODEV : -ENOMEM, NULL,
                               server_now_ns(server));
                if (is_warm)
                        prewarming_stop(server, pool,
                                        is_barred ? "the device is in error"
                                                  : "out of memory in gpumemd");
                return;
        }
        backing->is_rdma = block_properties(block) & POLICY_RDMA;
        backing->life.n_losses = server->pools[pool].driver.state.n_losses;
        backing->job = (struct job){.kind = JOB_CREATE, .block = backing, .owner = block};
        LIST_INSERT_HEAD(&server->pools[pool].being_made, backing, link);
        driver_health_submit(server, pool, payer_of(server, action), &backing->job);
}

/* Any step may be the one in which blocks above a lowered limit go back: the node pays for these. */
static struct payer *release_payer(struct server *server, uint64_t line)
{
        struct payer *node = &server->scheduler.node;

        return line == node->owner ? node : driver_jobs_payer_now(server);
}

/* Whose step it is says nothing of whose request made the block go: a walk meets the requests of all. */
static void release(struct server *server, const struct action *action)
{
        struct block *block = action->block;
        struct backing_block *backing = block_backing(block);

        backing->may_be_used = block_may_be_used(block);
        backing->job = (struct job){
                .kind = JOB_RELEASE, .block = backing, .owner = block, .user = action->line};
        driver_health_submit(server, block_pool(block), release_payer(server, action->line),
                             &backing->job);
}

static void note_grant(const struct action *action)
{
        event_log_note_grant(client_owner(action->client), block_pool(action->block),
                             block_bytes(action->block));
}

static void grant_known(const struct action *action)
{
        struct frame frame = FRAME_NULL;

        frame.known = (struct message_known){
                .lease = lease_id(action->lease),
                .block = block_id(action->block),
                .n_bytes = block_bytes(action->block),
                .slot = lease_slot(action->lease),
        };
        session_send(client_owner(action->client), &frame, MESSAGE_KNOWN, action->serial, NULL, 0);
}

static void grant(const struct action *action)
{
        struct session *session = client_owner(action->client);
        struct backing_block *backing = block_backing(action->block);
        struct frame frame = FRAME_NULL;

        frame.leased = (struct message_leased){
                .lease = lease_id(action->lease),
                .block = block_id(action->block),
                .n_bytes = block_bytes(action->block),
                .slot = lease_slot(action->lease),
        };
        proto_seal(&frame, MESSAGE_LEASED, action->serial, 1);
        transport_send(&session->transport, &frame, &backing->fd, TRANSPORT_OF_BLOCK);
}

static void freed(const struct action *action)
{
        struct session *session = client_owner(action->client);
        struct frame frame = FRAME_NULL;

        if (action->n_bytes && !action->of_others)
                event_log_note(session, LISTED_EVENT_FREED, action->pool, action->n_bytes, NULL);
        if (reclaim_answer(session, action))
                return;
        frame.freed.n_bytes = action->n_bytes;
        frame.freed.n_blocks = action->n_blocks;
        session_send(session, &frame, MESSAGE_FREED, action->serial, NULL, 0);
}

static void call_in(const struct action *action)
{
        struct frame frame = FRAME_NULL;

        frame.notice.what = PROTO_NOTICE_UNMAP;
        frame.notice.lease = lease_id(action->lease);
        session_send(client_owner(action->client), &frame, MESSAGE_NOTICE, 0, NULL, 0);
}

/* The message is a hint. A client that has not read the last one gets no second: it would say nothing new,
 * and queue up. */
static void send_mark(struct task *task)
{
        struct session *session = CONTAINER_OF(task, struct session, marking);
        struct frame frame = FRAME_NULL;

        if (session->asked_to_mark && !transport_is_read(&session->transport))
                return;
        session->asked_to_mark = true;
        frame.notice.what = PROTO_NOTICE_MARK;
        session_send(session, &frame, MESSAGE_NOTICE, 0, NULL, 0);
}

/* In a step of its own: a block is a reason to ask several clients. The node pays, since the one for which the block is
 * made may have ended by then. */
static void ask_to_mark(struct server *server, const struct action *action)
{
        struct session *session = client_owner(action->client);

        session->marking.step = send_mark;
        payer_put(&server->scheduler.node, &session->marking);
}

/* One that does not read is told of a few pools only. */
#define PRESSURES_UNREAD_MAX 4

static void tell_pressure(const struct action *action)
{
        struct session *session = client_owner(action->client);
        struct frame frame = FRAME_NULL;

        if (transport_is_read(&session->transport))
                session->n_unread_pressures = 0;
        if (session->n_unread_pressures == PRESSURES_UNREAD_MAX)
                return;
        session->n_unread_pressures++;
        frame.notice.what = PROTO_NOTICE_PRESSURE;
        frame.notice.lease = action->pool;
        session_send(session, &frame, MESSAGE_NOTICE, 0, NULL, 0);
}

static void execute_one(struct server *server, const struct action *action)
{
        switch (action->kind) {
        case ACTION_CREATE:
                create(server, action);
                break;
        case ACTION_RELEASE:
                release(server, action);
                break;
        case ACTION_GRANT:
                (void)device_watch_claim(server, action->pool, client_tenant_key(action->client));
                note_grant(action);
                if (action->known)
                        grant_known(action);
                else
                        grant(action);
                break;
        case ACTION_REFUSE:
                refuse_lease(server, action);
                break;
        case ACTION_FREED:
                freed(action);
                break;
        case ACTION_NOTICE:
                call_in(action);
                break;
        case ACTION_MARK:
                ask_to_mark(server, action);
                break;
        case ACTION_PRESSURE:
                tell_pressure(action);
                break;
        case ACTION_NONE:
                break;
        }
}

static void cancel(struct server_pool *pool, struct backing_block *backing)
{
        atomic_store(&backing->abandoned, true);
        LIST_REMOVE(backing, link);
        LIST_INSERT_HEAD(&pool->unwanted, backing, link);
}

/* Cancels creations whose requester has left, so that they do not block the worker. Each is found once: those that wait
 * for the worker may be ten thousands, and there are no more that are wanted than requests that may wait. */
static void cancel_unwanted(struct server *server)
{
        for (uint32_t i = 0; i < server->n_pools; i++) {
                struct server_pool *pool = &server->pools[i];
                struct backing_block *backing, *next;

                for (backing = LIST_FIRST(&pool->being_made); backing; backing = next) {
                        next = LIST_NEXT(backing, link);
                        if (!block_is_awaited(backing->job.owner))
                                cancel(pool, backing);
                }
        }
}

static void on_deadline(uv_timer_t *timer)
{
        struct server *server = CONTAINER_OF(timer, struct server, deadline);

        policy_expire(server->policy, server_now_ns(server));
        execute_now(server);
}

/* Rounds up, since the loop counts whole milliseconds: the deadline must have passed when the loop wakes.
 * No message tells that a lease becomes idle, so the daemon checks at intervals while a request waits. */
static void wake_within(struct server *server, uint64_t wait_ms)
{
        uv_timer_t *timer = &server->deadline;

        if (!uv_is_active((uv_handle_t *)timer) || uv_timer_get_due_in(timer) > wait_ms)
                (void)uv_timer_start(timer, on_deadline, wait_ms, 0);
}

static uint64_t ms_until(struct server *server, uint64_t deadline_ns)
{
        uint64_t now_ns = server_now_ns(server);

        return deadline_ns > now_ns ? (deadline_ns - now_ns) / NS_PER_MS + 1 : 0;
}

static void set_deadline(struct server *server)
{
        uint64_t deadline_ns = policy_next_deadline(server->policy);
        uint64_t keep_end_ns = policy_next_keep_end(server->policy);
        uint64_t wait_ms = ms_until(server, deadline_ns);

        if (deadline_ns == UINT64_MAX && keep_end_ns == UINT64_MAX)
                (void)uv_timer_stop(&server->deadline);
        if (deadline_ns != UINT64_MAX)
                wake_within(server, wait_ms < LOOK_MS ? wait_ms : LOOK_MS);
        if (keep_end_ns != UINT64_MAX)
                wake_within(server, ms_until(server, keep_end_ns));
}

/* Returns whether there was an action. */
static bool execute_all(struct server *server)
{
        bool any = false;

        while (policy_has_action(server->policy)) {
                struct action action = policy_next_action(server->policy);

                execute_one(server, &action);
                any = true;
        }
        return any;
}

void execute_now(struct server *server)
{
        server->is_dirty = true;
        /* An action may end a session, which calls this function. The outer call executes the actions that
         * this adds. */
        if (server->is_executing)
                return;
        server->is_executing = true;
        (void)execute_all(server);
        server->is_executing = false;
}

/* Memory of a full device may become free without a message: other processes free theirs, and the driver
 * frees that of dead processes late. */
static void on_retry(uv_timer_t *timer)
{
        struct server *server = CONTAINER_OF(timer, struct server, retry);

        for (uint32_t i = 0; i < server->n_pools; i++) {
                if (server->pools[i].is_full)
                        policy_retry(server->policy, i, server_now_ns(server));
                server->pools[i].is_full = false;
        }
        execute_now(server);
}

static void note_full(struct server *server, uint32_t pool)
{
        server->pools[pool].is_full = true;
        if (!uv_is_active((uv_handle_t *)&server->retry))
                (void)uv_timer_start(&server->retry, on_retry, RETRY_MS, 0);
}

static void created(struct server *server, struct backing_block *backing)
{
        struct block *block = backing->job.owner;
        uint32_t pool = block_pool(block);
        int r = backing->job.result;
        bool is_kept, is_warm = block_is_unowned(block);
        char failure[BACKING_FAILURE_MAX];

        (void)snprintf(failure, sizeof(failure), "%s", backing->job.failure);
        LIST_REMOVE(backing, link);
        if (r == GPUMEM_E_DEVICE_FULL)
                note_full(server, pool);
        else if (r && r != -ECANCELED)
                log_warning("%s: cannot create a block of %" PRIu64 " bytes: %s",
                            server->pools[pool].row.name, backing->n_bytes, backing->job.failure);
        /* Before the policy gives the block's room to another request. */
        is_kept = r && backing->handle && release_retry_keep(server, pool, &backing->job);
        policy_created(server->policy, block, r, r ? NULL : backing, server_now_ns(server));
        if (is_warm)
                prewarming_continue(server, pool, backing->n_bytes, r ? failure : NULL);
        if (r && !is_kept)
                driver_jobs_free_block(backing);
}

static void released(struct server *server, uint32_t pool, struct job *job)
{
        if (job->result && release_retry_keep(server, pool, job))
                return;
        server->pools[pool].driver.logged_unreleased = job->result != 0;
        release_retry_forget(server, pool, job);
        if (job->owner)
                policy_released(server->policy, job->owner, server_now_ns(server));
        driver_jobs_free_block(job->block);
}

static void end_job(struct server *server, uint32_t pool, struct job *job)
{
        driver_health_note_job(server, pool, job);
        switch (job->kind) {
        case JOB_CREATE:
                if (job->result != GPUMEM_E_DEVICE_FULL || !device_watch_hold(server, pool, job))
                        created(server, job->block);
                break;
        case JOB_RELEASE:
                released(server, pool, job);
                break;
        case JOB_TRY:
                driver_health_end_try(server, pool, job);
                break;
        }
}

unsigned execute_take_answered(struct server *server, unsigned n_most)
{
        for (uint32_t i = 0; i < server->n_pools; i++) {
                struct job *job;

                while (n_most && (job = device_watch_take_answered(&server->pools[i]))) {
                        created(server, job->block);
                        n_most--;
                }
        }
        return n_most;
}

static void serve_on(struct server *server)
{
        if (server->is_dirty && !server->stopping)
                payer_put(&server->scheduler.serving, &server->serving);
}

/* Serves the queues of pools about which the policy was told something: a part of that, at the end of the step that
 * told it. What it leaves is done in steps of its own, which delay no other step by more than their share. */
void execute_serve(struct server *server)
{
        unsigned n_left = PART_ITEMS;

        if (!server->is_dirty)
                return;
        if (!server->stopping && server->scheduler.payer != &server->scheduler.serving &&
            server->n_events == policy_n_events(server->policy)) {
                serve_on(server);
                return;
        }
        n_left = execute_take_answered(server, n_left);
        server->is_executing = true;
        do {
                n_left = policy_serve(server->policy, n_left, server_now_ns(server));
        } while (execute_all(server) && n_left);
        server->is_executing = false;
        server->is_dirty = !n_left;
        server->n_events = policy_n_events(server->policy);
        server->has_served = true;
        serve_on(server);
}

/* The step is all that follows each step. */
static void serve(struct task *task)
{
        (void)task;
}

void execute_after_turn(struct server *server)
{
        if (server->stopping)
                execute_serve(server);
        serve_on(server);
        session_free_ended(server);
        if (!server->has_served)
                return;
        server->has_served = false;
        if (server->n_unawaited != policy_n_unawaited(server->policy) || server->stopping)
                cancel_unwanted(server);
        server->n_unawaited = policy_n_unawaited(server->policy);
        aging_timer_watch(server);
        /* Else it is set when all is served. */
        if (!server->stopping && !server->is_dirty)
                set_deadline(server);
}

void execute_open(struct server *server)
{
        server->serving.step = serve;
        server->end_job = end_job;
        driver_jobs_open(server);
        policy_serve_in_turns(server->policy);
        policy_set_node_line(server->policy, server->scheduler.node.owner);
}
