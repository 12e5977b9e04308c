/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/apply_settings.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include "base/err.h"
#include "base/log.h"
#include "daemon/server/core/fd_limits.h"
#include "daemon/server/core/pool_settings.h"
#include "daemon/server/pools/pools.h"
#include "daemon/server/pools/aging_timer.h"
#include "daemon/server/pools/device_watch.h"
#include "daemon/server/pools/prewarming.h"
#include "daemon/server/requests/limit_text.h"
#include "daemon/server/server.h"
#include "daemon/server/session/audit_log.h"
#include "daemon/server/session/event_log.h"
#include "gpumem.h"

static bool names_any(const struct server *server, const struct pool_rule *rule)
{
        for (uint32_t i = 0; i < server->n_pools; i++) {
                if (pool_rule_names(rule, &server->pools[i].row))
                        return true;
        }
        return false;
}

/* As the configuration has it: "device": 7. */
static void name_rule(const struct pool_rule *rule, char *text, size_t n_text)
{
        const uint8_t *uuid = rule->uuid;

        switch (rule->selector) {
        case POOL_OF_EACH_DEVICE:
                (void)snprintf(text, n_text, "\"device\": \"all\"");
                break;
        case POOL_OF_EACH_NODE:
                (void)snprintf(text, n_text, "\"pinned\": \"all\"");
                break;
        case POOL_OF_DEVICE:
                (void)snprintf(text, n_text, "\"device\": %" PRIu32, rule->number);
                break;
        case POOL_OF_UUID:
                (void)snprintf(text, n_text, "\"device\": \"GPU-%02x%02x%02x%02x-...\"", uuid[0],
                               uuid[1], uuid[2], uuid[3]);
                break;
        case POOL_OF_NODE:
                (void)snprintf(text, n_text, "\"pinned\": %" PRIu32, rule->number);
                break;
        }
}

void apply_settings_check_rules(const struct server *server, const struct settings *settings)
{
        for (size_t i = 0; i < settings->n_rules; i++) {
                char name[80];

                if (names_any(server, &settings->rules[i]))
                        continue;
                name_rule(&settings->rules[i], name, sizeof(name));
                log_warning("pools[%zu] of the configuration (%s) matches no pool of this machine; "
                            "it has no effect",
                            i, name);
        }
}

/* The backing of existing blocks cannot change. */
static void check_backings(const struct server *server, const struct settings *settings)
{
        for (uint32_t i = 0; i < server->n_pools; i++) {
                const struct pool_row *row = &server->pools[i].row;
                bool is_vmm = row->properties & PROTO_POOL_VMM;

                if (row->kind == GPUMEM_PINNED &&
                    is_vmm != (pool_settings_backing(settings, row) == PINNED_VMM))
                        log_warning("%s: its backing has changed; this takes effect when gpumemd "
                                    "is restarted",
                                    row->name);
        }
}

static void check_ipc(const struct server *server, const struct settings *settings)
{
        for (uint32_t i = 0; i < server->n_pools; i++) {
                const struct pool_row *row = &server->pools[i].row;
                bool is_legacy = row->properties & PROTO_POOL_LEGACY;

                if (row->kind == GPUMEM_DEVICE &&
                    is_legacy != (pool_settings_ipc(settings, row) == IPC_LEGACY))
                        log_warning("%s: its \"ipc\" has changed; this takes effect when gpumemd "
                                    "is restarted",
                                    row->name);
        }
        if (server->serves_one_user != settings->says_user ||
            (settings->says_user && server->served_uid != settings->user))
                log_warning("\"user\" has changed; this takes effect when gpumemd is restarted");
}

int server_apply_settings(struct server *server, struct settings *settings)
{
        int r;

        apply_settings_check_rules(server, settings);
        check_backings(server, settings);
        check_ipc(server, settings);
        for (uint32_t i = 0; i < server->n_pools; i++) {
                uint64_t max_bytes = pool_settings_max(settings, &server->pools[i].row);

                if (max_bytes != server->pools[i].row.n_max_bytes)
                        pools_set_max(server, i, max_bytes);
        }
        r = pools_publish_changes(server);
        pools_set_mins(server, settings);
        prewarming_apply_settings(server, settings);
        aging_timer_apply(server);
        device_watch_apply(server);
        fd_limits_set_each(server, &settings->each_user);
        server->shutdown.n_seconds = settings->n_drain_seconds;
        server->limits_revision++;
        audit_log_signal("SIGHUP", "configuration reloaded");
        event_log_note_node(server, LISTED_EVENT_RELOADED, PROTO_ALL_POOLS,
                            "configuration reloaded");
        limit_text_log_changes(policy_limits(server->policy), settings->limits);
        policy_set_limits(server->policy, steal_ptr(settings->limits), server_now_ns(server));
        server_execute(server);
        return r;
}

static void on_hangup(uv_signal_t *signal, int number)
{
        struct server *server = signal->data;

        (void)number;
        if (!server->stopping && server->shutdown.drain.state == DRAIN_NONE && server->on_hangup)
                server->on_hangup(server, server->hangup_argument);
}

int apply_settings_open_hangup(struct server *server, const struct server_options *options)
{
        int r = uv_signal_init(&server->loop, &server->sighup);

        if (r)
                return r;
        server->sighup.data = server;
        server->on_hangup = options->on_hangup;
        server->hangup_argument = options->hangup_argument;
        return uv_signal_start(&server->sighup, on_hangup, SIGHUP);
}

static void on_alive(uv_timer_t *timer)
{
        CONTAINER_OF(timer, struct server, alive)->on_alive();
}

int apply_settings_open_alive(struct server *server, const struct server_options *options)
{
        int r = uv_timer_init(&server->loop, &server->alive);

        server->on_alive = options->on_alive;
        if (r || !options->alive_ms)
                return r;
        return uv_timer_start(&server->alive, on_alive, options->alive_ms, options->alive_ms);
}

static void on_aside(uv_work_t *request)
{
        struct server *server = CONTAINER_OF(request, struct server, aside.request);

        server->aside.work(server->aside.argument);
}

static void on_aside_done(uv_work_t *request, int status)
{
        struct server *server = CONTAINER_OF(request, struct server, aside.request);

        (void)status;
        server->aside.busy = false;
        server->aside.done(server, server->aside.argument);
}

int server_do_aside(struct server *server, void (*work)(void *argument),
                    void (*done)(struct server *server, void *argument), void *argument)
{
        int r;

        if (server->aside.busy)
                return -EBUSY;
        server->aside.work = work;
        server->aside.done = done;
        server->aside.argument = argument;
        r = uv_queue_work(&server->loop, &server->aside.request, on_aside, on_aside_done);
        server->aside.busy = r == 0;
        return r;
}

bool server_is_stopping(const struct server *server)
{
        return server->stopping;
}
