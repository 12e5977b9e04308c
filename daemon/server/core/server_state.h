/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the server and of its pools, which every room reads. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "base/log.h"
#include "daemon/backing/device/watch.h"
#include "daemon/backing/worker/worker.h"
#include "daemon/identity/cgroup.h"
#include "daemon/identity/device_file.h"
#include "daemon/policy/drain.h"
#include "daemon/policy/driver_state.h"
#include "daemon/policy/policy.h"
#include "daemon/policy/prewarm.h"
#include "daemon/policy/report/stats.h"
#include "daemon/ratelimit/account.h"
#include "daemon/server/core/polling.h"
#include "daemon/server/core/settings.h"
#include "proto/proto.h"

#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S  UINT64_C(1000000000)

/* Leases that one client may hold at a time. */
#define CLIENT_N_SLOTS 4096

struct session;
LIST_HEAD(session_list, session);
struct reply_file;
TAILQ_HEAD(reply_file_list, reply_file); /* see reply_files.h */
struct event_history;
struct page_sweeper;
struct fd_closer;

/* A file in /dev as it was when it was last looked at. */
struct watched_file {
        bool was_seen;
        uint64_t seen_ns;
        struct device_file file;
};

struct server_pool {
        struct pool_row row; /* what clients are told of it */
        struct worker *worker;
        LIST_HEAD(, backing_block) being_made;
        uint64_t min_bytes; /* see settings_pool_min */
        unsigned n_jobs;    /* submitted and not yet taken back */
        bool is_full; /* the driver had no memory for the last block, though the pool has room */
        struct {
                struct driver_state state;
                struct job_queue retries;      /* see release_retry.h */
                unsigned n_trials_kept;        /* of these */
                uint64_t n_unreleasable_bytes; /* beside the policy's blocks */
                bool is_tried;                 /* by a trial, now */
                bool logged_unreleased;        /* since one was last released */
        } driver;
        struct {
                struct watch *watch; /* NULL in pinned pools */
                struct nvml_report report;
                struct job_queue held;     /* creates that failed, see device_watch.h */
                uint64_t n_asked;          /* what they wait for */
                struct job_queue answered; /* those that wait for nothing more */
                bool is_late;              /* NVML has not answered in time */
                bool logged_mig;
                bool is_dirty;  /* memory keeps its bytes: one tenant only is served */
                bool has_owner; /* there: the first that came */
                struct tenant_key owner;
                char file[24];                    /* "/dev/nvidia0"; "": it is not known which */
                struct watched_file watched_file; /* that */
        } device;
        struct {
                struct pool_stock stock; /* as the settings say */
                bool is_under_way;
                struct prewarm sizes;
                uint64_t n_made_bytes;
                uint64_t n_wanted_bytes;
                uint64_t since_ns;
        } prewarming; /* see prewarming.h */
};

struct server {
        uv_loop_t loop;
        struct policy *policy;
        struct event_history *history; /* see event_log.h */
        struct page_sweeper *sweeper;
        struct fd_closer *closer; /* NULL: the kernel lets no client send file descriptors */
        uint64_t incarnation;
        struct server_pool *pools;
        uint32_t n_pools;
        int pools_fd; /* the rows of all pools, sealed */
        uv_async_t worker_wake;
        uv_async_t device_wake;
        uv_timer_t device_timeout;
        uv_timer_t driver_health_timer; /* see driver_health.h */
        uv_timer_t deadline;
        uv_timer_t retry; /* of blocks that the driver had no memory for */
        uv_signal_t sighup;
        void (*on_hangup)(struct server *server, void *argument);
        void *hangup_argument;
        uv_timer_t alive;
        void (*on_alive)(void);
        void (*on_stop)(void);
        void (*on_status)(const char *status);
        void (*on_ready)(void);
        struct {
                uv_timer_t timer;
                bool is_ready;        /* and that was told */
                uint64_t reported_ns; /* when progress was reported last */
        } prewarming;
        struct {
                struct drain drain;
                uint64_t n_seconds; /* that are waited for what is held */
                uv_timer_t timer;
                uv_signal_t sigterm;
                uv_signal_t sigint;
                uint64_t reported_ns; /* the same */
                void (*on_over)(struct server *server);
        } shutdown;
        struct {
                uv_work_t request;
                bool busy;
                void (*work)(void *argument);
                void (*done)(struct server *server, void *argument);
                void *argument;
        } aside;
        struct {
                struct reply_file_list list; /* the oldest first */
                unsigned n;
                uint64_t n_bytes;
                uv_timer_t timer;
        } reply_files; /* see reply_files.h */
        struct listener *listener;
        struct session_list sessions;
        /* Takes a frame of a session in HELLO or READY. server_new sets it, so that sessions need not
         * know the requests. */
        void (*take_frame)(struct session *session, int r, const struct frame *frame);
        /* See server_execute. server_new sets it, too, so that lower rooms need not know execute.c. */
        void (*execute)(struct server *server);
        struct watched_file driver_file; /* see gpu_file_access.h */
        enum tenancy tenancy;
        uint64_t n_limit_lists;              /* that were asked for */
        uint64_t n_alone;                    /* tenants of one client that there were */
        char own_container[CGROUP_PATH_MAX]; /* the daemon's; "" also where it cannot be read */
        bool serves_one_user;
        uint32_t served_uid;         /* that one */
        uint64_t limits_revision;    /* how often limits have been set, by whatever way */
        struct accounts accounts;    /* of who is counted together */
        struct polling polling;      /* connections whose peers are waited for, or are held */
        uv_timer_t timeouts_timer;   /* for peers that have not said HELLO, or do not read */
        struct log_limit complaints; /* about clients */
        uv_prepare_t iteration;      /* before the loop waits */
        bool is_executing;
        bool is_dirty; /* something was told to the policy in this loop iteration */
        bool stopping;
};

static inline uint64_t server_now_ns(const struct server *server)
{
        return uv_now(&server->loop) * NS_PER_MS;
}

/* Executes what the policy decided. To be called after everything that was told to the policy: an action
 * says what is so when it is given, and may not be so after the next event. The queues are served, and the
 * deadline timer is set, once in a loop iteration, before the loop waits. */
static inline void server_execute(struct server *server)
{
        server->execute(server);
}

/* Whether a line about a client may be written: it can cause as many as it likes. */
static inline bool server_may_complain(struct server *server)
{
        return log_may(&server->complaints, LOG_WARNING, server_now_ns(server));
}
