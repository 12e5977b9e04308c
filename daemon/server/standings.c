#include "daemon/server/standings.h"

#include <inttypes.h>

#include "base/err.h"
#include "daemon/server/session.h"

#define LOOK_MS 250

/* Between tries of a driver that would not take a block back. */
#define RETRY_LOOKS 4

static void say(const struct server_pool *pool, const struct standing *before, uint64_t now_ns)
{
        double seconds = (double)(now_ns - before->since_ns) / 1e9;

        switch (pool->driver.standing.state) {
        case STANDING_STALLED:
                log_error("pool %" PRIu32 ": %s: the driver does not answer; what is cached is "
                          "served, and nothing else until it does",
                          pool->row.id, pool->row.name);
                break;
        case STANDING_LOST:
                log_error("pool %" PRIu32 ": %s: the device is lost; nothing is served there until "
                          "it is back, and what was there never again",
                          pool->row.id, pool->row.name);
                break;
        case STANDING_SERVES:
                log_info("pool %" PRIu32 ": %s: the driver answers again, after %.1f s",
                         pool->row.id, pool->row.name, seconds);
                break;
        }
}

static void tell(struct server *server, uint32_t id, uint32_t what)
{
        struct session *session;

        LIST_FOREACH (session, &server->sessions, link) {
                struct frame frame = FRAME_NULL;

                if (session->state != SESSION_READY || !(session->features & PROTO_FEATURE_LOSS))
                        continue;
                frame.notice.what = what;
                frame.notice.lease = id;
                session_send(session, &frame, MESSAGE_NOTICE, 0, NULL, 0);
        }
}

static void change(struct server *server, uint32_t id, const struct standing *before)
{
        struct server_pool *pool = &server->pools[id];
        uint64_t now_ns = server_now_ns(server);

        say(pool, before, now_ns);
        if (!server->stopping)
                (void)policy_set_standing(server->policy, id, pool->driver.standing.state, now_ns);
        if (before->state == STANDING_LOST)
                tell(server, id, PROTO_NOTICE_BACK);
        else if (pool->driver.standing.state == STANDING_LOST)
                tell(server, id, PROTO_NOTICE_LOST);
        server_settle(server);
}

void standings_hear(struct server *server, uint32_t id, const struct job *job)
{
        struct standing *standing = &server->pools[id].driver.standing, before = *standing;

        /* To let go of something is no sign of a device that works. */
        if (!worker_needs_driver(server->pools[id].worker) ||
            (job->kind == JOB_RELEASE && !job->result))
                return;
        if (standing_hear(standing, job->result, server_now_ns(server)))
                change(server, id, &before);
}

void standings_see_nvml(struct server *server, uint32_t id, bool says_lost)
{
        struct standing *standing = &server->pools[id].driver.standing, before = *standing;

        if (standing_see_nvml(standing, says_lost, server_now_ns(server)))
                change(server, id, &before);
}

/* Said once for each time that the driver begins to refuse. */
bool standings_keep(struct server *server, uint32_t id, struct job *job)
{
        struct server_pool *pool = &server->pools[id];

        if (server->stopping)
                return false;
        if (!pool->driver.said_unreleased)
                log_error("pool %" PRIu32 ": %s: %" PRIu64 " bytes do not go back to the driver, "
                          "which is tried again: %s",
                          id, pool->row.name, job->block->n_bytes, job->failure);
        pool->driver.said_unreleased = true;
        if (job->kind == JOB_CREATE)
                job->owner = NULL;
        job->kind = JOB_RELEASE;
        TAILQ_INSERT_TAIL(&pool->driver.unreleased, job, link);
        if (job->owner)
                policy_not_released(server->policy, job->owner, server_now_ns(server));
        standings_watch(server);
        return true;
}

static void release_again(struct server *server, uint32_t id)
{
        struct job_queue *jobs = &server->pools[id].driver.unreleased;
        struct job *job;

        while ((job = TAILQ_FIRST(jobs))) {
                TAILQ_REMOVE(jobs, job, link);
                server_submit(server, id, job);
        }
}

static void try_again(struct server *server, uint32_t id)
{
        struct server_pool *pool = &server->pools[id];

        if (!standing_take_try(&pool->driver.standing, server_now_ns(server)) ||
            pool->driver.is_tried)
                return;
        pool->driver.is_tried = true;
        pool->driver.trial = (struct job){.kind = JOB_TRY};
        server_submit(server, id, &pool->driver.trial);
}

/* Returns whether there is more to watch. */
static bool look(struct server *server, uint32_t id)
{
        struct server_pool *pool = &server->pools[id];
        struct standing *standing = &pool->driver.standing, before = *standing;
        uint64_t now_ns = server_now_ns(server);

        if (standing_see_call(standing, worker_is_late(pool->worker, now_ns), now_ns))
                change(server, id, &before);
        if (server->stopping)
                return pool->n_jobs;
        try_again(server, id);
        return pool->n_jobs || standing->is_lost_by_call || !TAILQ_EMPTY(&pool->driver.unreleased);
}

static void on_look(uv_timer_t *timer)
{
        struct server *server = CONTAINER_OF(timer, struct server, driver_look);
        bool goes_on = false;

        server->n_driver_looks++;
        for (uint32_t i = 0; i < server->n_pools; i++) {
                if (server->n_driver_looks % RETRY_LOOKS == 0)
                        release_again(server, i);
                goes_on = look(server, i) || goes_on;
        }
        if (!goes_on)
                (void)uv_timer_stop(timer);
}

void standings_watch(struct server *server)
{
        if (!uv_is_active((uv_handle_t *)&server->driver_look))
                (void)uv_timer_start(&server->driver_look, on_look, LOOK_MS, LOOK_MS);
}

void standings_fill(const struct server *server, uint32_t id, struct stats_row *row)
{
        static const uint64_t states[] = {
                [STANDING_SERVES] = PROTO_DRIVER_ANSWERS,
                [STANDING_STALLED] = PROTO_DRIVER_STALLED,
                [STANDING_LOST] = PROTO_DRIVER_LOST,
        };
        const struct standing *standing = &server->pools[id].driver.standing;

        row->driver = states[standing->state];
        row->driver_for = standing->since_ns
                                  ? (server_now_ns(server) - standing->since_ns) / NS_PER_MS
                                  : 0;
}

void standings_stop(struct server *server)
{
        for (uint32_t i = 0; i < server->n_pools; i++)
                release_again(server, i);
}
