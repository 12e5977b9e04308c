/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/pools/device_watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "daemon/policy/aging.h"
#include "daemon/server/pools/driver_health.h"
#include "daemon/server/session/authorization.h"
#include "daemon/server/session/event_log.h"
#include "daemon/server/session/session.h"
#include "gpumem.h"
#include "proto/listing.h"

/* How long a refusal waits for NVML's answer. */
#define HOLD_MS 250

/* The name of a process, in a refusal's facts. */
#define USER_NAME_BYTES sizeof(((struct message_refused_facts *)0)->user_program_1)

static const char *name_of(const struct server_pool *pool)
{
        return pool->row.name;
}

bool device_watch_is_barred(const struct server_pool *pool)
{
        return nvml_health_is_error(pool->device.report.health);
}

static void release_held(struct server_pool *pool)
{
        TAILQ_CONCAT(&pool->device.answered, &pool->device.held, link);
}

struct job *device_watch_take_answered(struct server_pool *pool)
{
        struct job *job = TAILQ_FIRST(&pool->device.answered);

        if (job)
                TAILQ_REMOVE(&pool->device.answered, job, link);
        return job;
}

static uint64_t state_of(enum nvml_health health)
{
        static const uint64_t states[] = {
                [NVML_HEALTH_UNKNOWN] = PROTO_DEVICE_UNKNOWN,
                [NVML_WELL] = PROTO_DEVICE_WELL,
                [NVML_WORN] = PROTO_DEVICE_WORN,
                [NVML_NEEDS_RESET] = PROTO_DEVICE_NEEDS_RESET,
                [NVML_NEEDS_REBOOT] = PROTO_DEVICE_NEEDS_REBOOT,
                [NVML_LOST] = PROTO_DEVICE_LOST,
        };

        return states[health];
}

static const char *health_text(enum nvml_health health)
{
        return listed_device_text(state_of(health));
}

/* Logs a change of health. The first answer is logged only if the device is not healthy. */
static void log_health(struct server *server, const struct server_pool *pool,
                       enum nvml_health before)
{
        enum nvml_health now = pool->device.report.health;

        if (now == before || now == NVML_HEALTH_UNKNOWN)
                return;
        if (now != NVML_WELL || before != NVML_HEALTH_UNKNOWN)
                event_log_note_node(server, LISTED_EVENT_HEALTH, pool->row.id, "%s: NVML says: %s",
                                    name_of(pool), health_text(now));
        if (nvml_health_is_error(now))
                log_error("pool %" PRIu32 " (%s): NVML says: %s; creating no new blocks there "
                          "until the device recovers",
                          pool->row.id, name_of(pool), health_text(now));
        else if (now == NVML_WORN)
                log_warning("pool %" PRIu32 " (%s): NVML says: %s", pool->row.id, name_of(pool),
                            health_text(now));
        else if (before != NVML_HEALTH_UNKNOWN)
                log_info("pool %" PRIu32 " (%s): recovered, according to NVML", pool->row.id,
                         name_of(pool));
}

static void log_xids(struct server *server, const struct server_pool *pool,
                     const struct nvml_report *before)
{
        const struct nvml_report *now = &pool->device.report;
        uint64_t n_before = before->n_xids == NVML_UNKNOWN ? 0 : before->n_xids;

        if (now->n_xids == NVML_UNKNOWN || now->n_xids <= n_before)
                return;
        log_warning("pool %" PRIu32 " (%s): NVML reports an error, XID %" PRIu64, pool->row.id,
                    name_of(pool), now->last_xid);
        event_log_note_node(server, LISTED_EVENT_HEALTH, pool->row.id,
                            "%s: NVML reports an error, XID %" PRIu64, name_of(pool),
                            now->last_xid);
}

void device_watch_mark_dirty(struct server *server, struct server_pool *pool)
{
        pool->device.is_dirty = true;
        event_log_note_node(server, LISTED_EVENT_CANARY, pool->row.id,
                            "%s: the driver does not clear memory; only one tenant is served there",
                            name_of(pool));
}

/* A device found dirty stays so: one tenant uses its memory from then on. */
static void take_report(struct server *server, struct server_pool *pool,
                        const struct watch_report *watched)
{
        const struct nvml_report *report = &watched->nvml;
        struct nvml_report before = pool->device.report;

        pool->device.report = *report;
        memcpy(pool->device.processes, watched->processes, sizeof(pool->device.processes));
        if (watched->canary == CANARY_DIRTY && !pool->device.is_dirty)
                device_watch_mark_dirty(server, pool);
        log_xids(server, pool, &before);
        log_health(server, pool, before.health);
        driver_health_note_nvml(server, pool->row.id, pool->device.report.health == NVML_LOST);
        if (report->mig == 1 && !pool->device.logged_mig) {
                pool->device.logged_mig = true;
                log_info("pool %" PRIu32 " (%s): a MIG instance; errors are told of the whole GPU",
                         pool->row.id, name_of(pool));
        }
}

/* The node pays. */
static void give_some_back(struct task *task)
{
        struct server *server = CONTAINER_OF(task, struct server, giving_back);

        if (policy_give_some_back(server->policy, PART_ITEMS, server_now_ns(server)))
                payer_put(&server->scheduler.node, task);
        server_execute(server);
}

/* Bytes that will soon be back at the driver count as free. Once for each look: the memory that went back since does not
 * show in the report. */
static void keep_free(struct server *server, struct server_pool *pool, uint64_t n_looks)
{
        const struct nvml_report *report = &pool->device.report;
        uint64_t n_wanted_bytes = pool->stock.keep_free_bytes, n_there_bytes;
        struct pool_stats stats;

        if (n_looks == pool->device.n_looks)
                return;
        pool->device.n_looks = n_looks;
        if (report->n_free_bytes == NVML_UNKNOWN || report->n_free_bytes >= n_wanted_bytes ||
            policy_pool_stats(server->policy, pool->row.id, &stats))
                return;
        n_there_bytes = report->n_free_bytes + stats.returning;
        policy_give_back(server->policy, pool->row.id,
                         n_there_bytes < n_wanted_bytes ? n_wanted_bytes - n_there_bytes : 0);
        if (!server->stopping)
                payer_put(&server->scheduler.node, &server->giving_back);
}

static void on_report(struct wake *wake)
{
        struct server *server = CONTAINER_OF(wake, struct server, device_wake);

        for (uint32_t i = 0; i < server->n_pools; i++) {
                struct server_pool *pool = &server->pools[i];
                struct watch_report report;

                if (!pool->device.watch)
                        continue;
                watch_read(pool->device.watch, &report);
                take_report(server, pool, &report);
                keep_free(server, pool, report.n_looks);
                if (report.n_answered < pool->device.n_asked)
                        continue;
                pool->device.is_late = false;
                release_held(pool);
        }
        server_execute(server);
}

static void release_all_held(struct server *server)
{
        for (uint32_t i = 0; i < server->n_pools; i++) {
                if (TAILQ_EMPTY(&server->pools[i].device.held))
                        continue;
                server->pools[i].device.is_late = true;
                release_held(&server->pools[i]);
        }
        server_execute(server);
}

static void on_late(uv_timer_t *timer)
{
        release_all_held(CONTAINER_OF(timer, struct server, device_timeout));
}

bool device_watch_hold(struct server *server, uint32_t id, struct job *job)
{
        struct server_pool *pool = &server->pools[id];

        if (!pool->device.watch || pool->device.is_late || server->stopping)
                return false;
        pool->device.n_asked = watch_ask(pool->device.watch);
        TAILQ_INSERT_TAIL(&pool->device.held, job, link);
        if (!uv_is_active((uv_handle_t *)&server->device_timeout))
                (void)uv_timer_start(&server->device_timeout, on_late, HOLD_MS, 0);
        return true;
}

static void on_wake(void *argument)
{
        wake_send(argument);
}

static int watch(struct server *server, struct server_pool *pool, const char *library,
                 const char *canary_library)
{
        struct watched watched = {.ordinal = (int)pool->row.place,
                                  .cuda_library = canary_library,
                                  .wake = on_wake,
                                  .wake_argument = &server->device_wake};

        memcpy(watched.uuid, pool->row.uuid, sizeof(watched.uuid));
        return watch_new(library, &watched, &pool->device.watch);
}

int device_watch_open(struct server *server, const char *library, const char *canary_library)
{
        int r = wake_open(&server->device_wake, &server->loop, on_report);

        if (!r)
                r = uv_timer_init(&server->loop, &server->device_timeout);
        server->giving_back.step = give_some_back;
        for (uint32_t i = 0; i < server->n_pools && !r; i++) {
                struct server_pool *pool = &server->pools[i];

                if (pool->row.kind == GPUMEM_DEVICE && library)
                        r = watch(server, pool, library, canary_library);
        }
        return r;
}

void device_watch_apply(struct server *server)
{
        for (uint32_t i = 0; i < server->n_pools; i++) {
                struct server_pool *pool = &server->pools[i];

                if (pool->device.watch)
                        watch_set_floor(pool->device.watch, pool->stock.keep_free_bytes);
        }
}

void device_watch_stop(struct server *server)
{
        release_all_held(server);
}

void device_watch_free(struct server *server)
{
        for (uint32_t i = 0; i < server->n_pools; i++)
                server->pools[i].device.watch = watch_free(server->pools[i].device.watch);
}

bool device_watch_admits(struct server *server, uint32_t id, const struct tenant_key *tenant)
{
        struct server_pool *pool = id < server->n_pools ? &server->pools[id] : NULL;

        if (!pool || !pool->device.is_dirty || !pool->device.has_owner)
                return true;
        return memcmp(&pool->device.owner, tenant, sizeof(*tenant)) == 0;
}

/* A request that is refused must not keep others away: so this comes with a block. */
bool device_watch_claim(struct server *server, uint32_t id, const struct tenant_key *tenant)
{
        struct server_pool *pool = &server->pools[id];

        if (pool->device.is_dirty && !pool->device.has_owner) {
                pool->device.has_owner = true;
                pool->device.owner = *tenant;
        }
        return device_watch_admits(server, id, tenant);
}

/* Memory that other processes use on the device. NVML counts gpumemd's blocks exactly as its own usage; the
 * two numbers were read at different times. */
static uint64_t others_bytes(const struct nvml_report *report, uint64_t reserved)
{
        if (report->n_used_bytes == NVML_UNKNOWN)
                return NVML_UNKNOWN;
        return report->n_used_bytes > reserved ? report->n_used_bytes - reserved : 0;
}

void device_watch_fill(const struct server_pool *pool, uint64_t reserved, struct stats_row *row)
{
        const struct nvml_report *report = &pool->device.report;

        row->device_free = report->n_free_bytes;
        row->device_others = others_bytes(report, reserved);
        row->device_uncorrected = report->n_uncorrected;
        row->device_mig = report->mig;
        row->device = state_of(report->health);
        row->device_xids = report->n_xids;
        row->device_last_xid = report->last_xid;
}

/* Process names reveal a tenant's programs: only the sum of other tenants' processes is told. */
static const struct nvml_process *next_largest(const struct session *asker,
                                               const struct server_pool *pool,
                                               const struct nvml_process *before)
{
        const struct nvml_report *report = &pool->device.report;
        const struct nvml_process *largest = NULL;

        for (unsigned i = 0; i < report->n_processes; i++) {
                const struct nvml_process *process = &report->processes[i];
                bool comes_later = !before || process->n_bytes < before->n_bytes ||
                                   (process->n_bytes == before->n_bytes && process > before);

                if (process->n_bytes == NVML_UNKNOWN || process->pid == (uint32_t)getpid() ||
                    !comes_later || (largest && process->n_bytes <= largest->n_bytes) ||
                    !authorization_shows_process(asker, (pid_t)process->pid,
                                                 &pool->device.processes[i]))
                        continue;
                largest = process;
        }
        return largest;
}

static void name_user(const struct server_pool *pool, const struct nvml_process *process,
                      uint32_t *pid, uint64_t *n_bytes, char name[static USER_NAME_BYTES])
{
        *pid = process->pid;
        *n_bytes = process->n_bytes;
        proto_put_text(name, USER_NAME_BYTES,
                       pool->device.processes[process - pool->device.report.processes].program);
}

void device_watch_fill_users(const struct session *asker, uint32_t id, uint64_t reserved,
                             struct message_refused_facts *facts)
{
        const struct server_pool *pool = &asker->server->pools[id];
        uint64_t n_others_bytes = others_bytes(&pool->device.report, reserved);
        const struct nvml_process *largest, *second;

        if (!n_others_bytes || n_others_bytes == NVML_UNKNOWN)
                return;
        facts->device_free = pool->device.report.n_free_bytes;
        facts->device_others = n_others_bytes;
        largest = next_largest(asker, pool, NULL);
        if (!largest)
                return;
        name_user(pool, largest, &facts->user_1, &facts->used_1, facts->user_program_1);
        second = next_largest(asker, pool, largest);
        if (second)
                name_user(pool, second, &facts->user_2, &facts->used_2, facts->user_program_2);
}

uint32_t device_watch_state(const struct server_pool *pool)
{
        return (uint32_t)state_of(pool->device.report.health);
}
