/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/server.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/err.h"
#include "daemon/backing/worker/abandoned_threads.h"
#include "daemon/backing/worker/fd_closer.h"
#include "daemon/backing/worker/page_sweeper.h"
#include "daemon/identity/process_lookup.h"
#include "daemon/server/apply_settings.h"
#include "daemon/server/core/fd_limits.h"
#include "daemon/server/listener.h"
#include "daemon/server/lists/list_stats.h"
#include "daemon/server/pools/aging_timer.h"
#include "daemon/server/pools/device_watch.h"
#include "daemon/server/pools/driver_health.h"
#include "daemon/server/pools/driver_jobs.h"
#include "daemon/server/pools/pools.h"
#include "daemon/server/pools/prewarming.h"
#include "daemon/server/pools/release_retry.h"
#include "daemon/server/requests/dispatch.h"
#include "daemon/server/requests/execute.h"
#include "daemon/server/session/board_file.h"
#include "daemon/server/session/event_log.h"
#include "daemon/server/session/file_stock.h"
#include "daemon/server/session/reply_files.h"
#include "daemon/server/session/session.h"
#include "daemon/server/shutdown.h"
#include "daemon/server/transport/lanes.h"
#include "proto/listing.h"

static void on_worker_wake(struct wake *wake)
{
        driver_jobs_wake(CONTAINER_OF(wake, struct server, worker_wake));
}

static void tell_everybody(struct server *server)
{
        struct session *session;

        LIST_FOREACH (session, &server->sessions, link) {
                struct frame frame = FRAME_NULL;

                if (session->state != SESSION_READY)
                        continue;
                frame.notice.what = PROTO_NOTICE_SHUTTING_DOWN;
                session_send(session, &frame, MESSAGE_NOTICE, 0, NULL, 0);
        }
}

/* Stops serving. Leases stay valid in the clients' hands: only the daemon's own fds are closed. */
static void stop(struct server *server)
{
        struct session *session, *next;

        if (server->stopping)
                return;
        server->stopping = true;
        event_log_note_node(server, LISTED_EVENT_STOPPING, PROTO_ALL_POOLS,
                            "gpumemd is shutting down");
        server->listener = listener_close(server->listener);
        tell_everybody(server);
        for (session = LIST_FIRST(&server->sessions); session; session = next) {
                next = LIST_NEXT(session, link);
                session_drop(session);
        }
        transport_close_waiting(server);
        payer_take_out(&server->timeouts.task);
        payer_take_out(&server->serving);
        payer_take_out(&server->aging.task);
        payer_take_out(&server->giving_back);
        payer_take_out(&server->reply_files.task);
        pools_cancel(server);
        driver_jobs_stop(server);
        device_watch_stop(server);
        (void)execute_take_answered(server, UINT_MAX);
        for (uint32_t i = 0; i < server->n_pools; i++) {
                release_retry_stop(server, i);
                driver_health_stop(server, i);
        }
        policy_shut_down(server->policy);
        server_execute(server);
        scheduler_close(&server->scheduler);
        uv_close((uv_handle_t *)&server->deadline, NULL);
        uv_close((uv_handle_t *)&server->retry, NULL);
        polling_close(&server->polling);
        uv_close((uv_handle_t *)&server->aging.timer, NULL);
        uv_close((uv_handle_t *)&server->timeouts.timer, NULL);
        uv_close((uv_handle_t *)&server->device_timeout, NULL);
        reply_files_close(server);
        shutdown_close(server);
}

static void after_step(struct scheduler *scheduler)
{
        execute_serve(CONTAINER_OF(scheduler, struct server, scheduler));
}

static void after_turn(struct scheduler *scheduler)
{
        execute_after_turn(CONTAINER_OF(scheduler, struct server, scheduler));
}

static const struct scheduler_calls scheduler_calls = {after_step, after_turn};

static int open_handles(struct server *server)
{
        int r = scheduler_open(&server->scheduler, &server->loop, &scheduler_calls);

        if (!r)
                r = wake_open(&server->worker_wake, &server->loop, on_worker_wake);
        if (!r)
                r = uv_timer_init(&server->loop, &server->deadline);
        if (!r)
                r = uv_timer_init(&server->loop, &server->retry);
        if (!r)
                r = polling_open(&server->polling, &server->scheduler, transport_look);
        if (!r)
                r = uv_timer_init(&server->loop, &server->driver_health_timer);
        if (!r)
                r = uv_timer_init(&server->loop, &server->timeouts.timer);
        if (!r)
                r = reply_files_open(server);
        if (!r)
                execute_open(server);
        return r;
}

/* 0 means "none" on the wire. */
static int draw_incarnation(uint64_t *ret_incarnation)
{
        uint64_t incarnation = 0;

        while (!incarnation) {
                if (getrandom(&incarnation, sizeof(incarnation), 0) < 0)
                        return err_errno();
        }
        *ret_incarnation = incarnation;
        return 0;
}

/* A lease has a slot, and mostly a block of its own. */
static uint32_t count_slots(void)
{
        uint64_t n_blocks = fd_limits_max_blocks();

        return n_blocks < CLIENT_N_SLOTS ? (uint32_t)n_blocks : CLIENT_N_SLOTS;
}

static int set_up(struct server *server, const struct server_options *options)
{
        int r;

        server->tenancy = options->settings->tenancy;
        server->accounts.everyone = &server->scheduler.everyone;
        server->accounts.one_a_user = server->tenancy == TENANCY_OF_USERS;
        server->n_slots = count_slots();
        server->own_uid = geteuid();
        (void)process_lookup_container(getpid(), server->own_container);
        server->serves_one_user = options->settings->says_user;
        server->served_uid = options->settings->user;
        r = draw_incarnation(&server->incarnation);
        if (!r)
                r = page_sweeper_new(&server->sweeper);
        if (!r)
                r = policy_new(&server->policy);
        if (!r)
                r = event_log_open(server);
        if (!r)
                event_log_note_node(server, LISTED_EVENT_STARTED, PROTO_ALL_POOLS,
                                    "gpumemd " PROJECT_VERSION " started");
        if (!r)
                policy_set_max_blocks(server->policy, fd_limits_max_blocks());
        if (!r)
                r = open_handles(server);
        if (!r)
                r = shutdown_open(server, options, stop);
        if (!r)
                r = apply_settings_open_hangup(server, options);
        if (!r)
                r = apply_settings_open_alive(server, options);
        if (!r)
                r = pools_make(server, options);
        if (!r) {
                prewarming_open(server, options);
                r = aging_timer_open(server);
        }
        if (!r)
                r = device_watch_open(server, options->nvml_library, options->canary_library);
        if (!r) {
                device_watch_apply(server);
                apply_settings_check_rules(server, options->settings);
                server->limits_revision = 1;
                policy_set_limits(server->policy, steal_ptr(options->settings->limits),
                                  server_now_ns(server));
        }
        if (!r)
                r = session_open_boards(server);
        if (!r)
                r = reply_files_open_stock(server, server->n_pools * sizeof(struct stats_row));
        if (!r)
                r = lanes_new(fd_limits_max_lane_links(), &server->lanes);
        if (!r)
                r = listener_new(server, options, &server->listener);
        return r;
}

int server_new(const struct server_options *options, struct server **ret_server)
{
        struct server *server = calloc(1, sizeof(*server));
        int r;

        if (!server)
                return -ENOMEM;
        server->pools_fd = -1;
        server->worker_wake = server->device_wake = WAKE_NULL;
        server->scheduler = SCHEDULER_NULL;
        LIST_INIT(&server->sessions);
        LIST_INIT(&server->ended_sessions);
        server->configuration_path = options->configuration_path;
        server->take_frame = dispatch_frame;
        server->execute = execute_now;
        r = fd_limits_init(server);
        fd_limits_set_each(server, &options->settings->each_user);
        if (!r)
                r = uv_loop_init(&server->loop);
        if (r) {
                free(server);
                return r;
        }
        r = set_up(server, options);
        if (r) {
                server_free(server);
                return r;
        }
        *ret_server = server;
        return 0;
}

static bool jobs_left(const struct server *server)
{
        for (uint32_t i = 0; i < server->n_pools; i++) {
                if (server->pools[i].n_jobs && !server->pools[i].driver.state.late_since_ns)
                        return true;
        }
        return false;
}

int server_run(struct server *server)
{
        prewarming_begin(server);
        while (!server->stopping)
                scheduler_run_once(&server->scheduler);
        /* Cached blocks go back to the driver before the daemon ends, if the driver answers. */
        while (jobs_left(server))
                scheduler_run_once(&server->scheduler);
        return 0;
}

static void close_handle(uv_handle_t *handle, void *argument)
{
        (void)argument;
        if (!uv_is_closing(handle))
                uv_close(handle, NULL);
}

struct server *server_free(struct server *server)
{
        if (!server)
                return NULL;
        server->stopping = true;
        server->listener = listener_close(server->listener);
        device_watch_free(server);
        uv_walk(&server->loop, close_handle, NULL);
        (void)uv_run(&server->loop, UV_RUN_DEFAULT);
        session_free_ended(server);
        (void)uv_run(&server->loop, UV_RUN_DEFAULT);
        pools_free(server);
        driver_jobs_forget(server);
        board_files_close(server);
        server->lanes = lanes_free(server->lanes);
        server->closer = fd_closer_free(server->closer);
        server->sweeper = page_sweeper_free(server->sweeper);
        /* A call that hangs may return later and use what it was given, so that stays allocated. */
        if (abandoned_threads_any())
                return NULL;
        server->stats_files = file_stock_free(server->stats_files);
        policy_free(server->policy);
        list_stats_close(server);
        event_log_close(server);
        wake_deinit(&server->worker_wake);
        wake_deinit(&server->device_wake);
        (void)uv_loop_close(&server->loop);
        scheduler_deinit(&server->scheduler);
        numbered_deinit(&server->sessions_by_number);
        free(server);
        return NULL;
}
