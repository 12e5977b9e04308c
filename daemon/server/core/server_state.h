/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the server and of its pools, which every room reads. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/numbered.h"
#include "daemon/backing/device/watch.h"
#include "daemon/backing/worker/worker.h"
#include "daemon/fairness/users.h"
#include "daemon/identity/cgroup.h"
#include "daemon/identity/device_file.h"
#include "daemon/policy/drain.h"
#include "daemon/policy/driver_state.h"
#include "daemon/policy/policy.h"
#include "daemon/policy/prewarm.h"
#include "daemon/policy/report/stats.h"
#include "daemon/policy/state/ranking.h"
#include "daemon/server/core/polling.h"
#include "daemon/server/core/pool_settings.h"
#include "daemon/server/core/wake.h"
#include "daemon/server/scheduler/scheduler.h"
#include "proto/messages.h"

/* Leases that one client may hold at a time. Its board has a page for each 512, from when the first of them is used. */
#define CLIENT_N_SLOTS 16384

struct server;
struct driver_block; /* see driver_jobs.h */
struct session;
LIST_HEAD(session_list, session);
struct reply_file;
TAILQ_HEAD(reply_file_list, reply_file); /* see reply_files.h */

/* Files that have a bound together. */
struct reply_bound {
        struct ranking owners;
        struct reply_file *newest; /* which is about to be read; NULL: it is taken back */
        unsigned n;
        uint64_t n_bytes;
};

struct event_history;
struct page_sweeper;
struct board_files;
struct file_stock;
struct fd_closer;
struct lanes;

/* A file in /dev, as last checked. */
struct watched_file {
        bool was_seen;
        uint64_t seen_ns;
        struct device_file file;
};

struct server_pool {
        struct pool_row row; /* what clients are told of the pool */
        struct worker *worker;
        LIST_HEAD(, backing_block) being_made; /* those that are wanted, */
        LIST_HEAD(, backing_block) unwanted;   /* and the others */
        uint64_t min_bytes;                    /* see pool_settings_min */
        unsigned n_jobs;                       /* submitted to the worker and not yet taken back */
        bool has_rdma; /* of a device: its blocks can be made such that network adapters can reach them */
        bool is_full; /* the driver had no memory for the last block, though the pool has room */
        struct {
                struct driver_state state;
                struct job_queue retries; /* see release_retry.h */
                unsigned n_retries;
                struct server *server;
                struct task telling; /* clients, that the device is lost or back: */
                struct numbered_walk told;
                uint32_t notice;
                struct task retrying;          /* those that are due, */
                unsigned n_to_look_at;         /* of so many, from the first one on, */
                uint64_t until_ns;             /* which are due until then */
                unsigned n_trials_kept;        /* retries that are now trials of the driver */
                uint64_t n_unreleasable_bytes; /* not part of the policy's blocks */
                bool is_tried;                 /* a trial is under way */
                bool logged_unreleased; /* the failure is logged; reset when a release succeeds */
        } driver;
        struct {
                struct watch *watch; /* NULL in pinned pools */
                struct nvml_report report;
                struct process_facts processes[NVML_PROCESSES_MAX]; /* of the report */
                uint64_t n_looks;      /* of the last report that was compared with the stock */
                struct job_queue held; /* failed creates that wait for NVML, see device_watch.h */
                uint64_t n_asked;      /* number of the last question to NVML that they wait for */
                struct job_queue answered; /* creates whose wait is over */
                bool is_late;              /* NVML has not answered in time */
                bool logged_mig;
                bool is_dirty;  /* the driver does not clear memory: only one tenant is served */
                bool has_owner; /* `owner` is set: the first tenant that came */
                struct tenant_key owner;
                char file[24];                    /* "/dev/nvidia0"; "": unknown */
                struct watched_file watched_file; /* the state of `file` */
        } device;
        struct pool_stock stock; /* from the settings, or as an administrator set it */
        struct {
                bool is_under_way;
                struct prewarm sizes;
                uint64_t n_made_bytes;
                uint64_t n_wanted_bytes;
                uint64_t since_ns;
        } prewarming; /* see prewarming.h */
};

/* A look at all blocks and boards: see list_stats.h. */
struct board_total;
struct stats_look {
        struct board_total
                *totals;    /* what was found so far, by pool; NULL: there is no such look */
        uint64_t number;    /* looks for STATS are numbered in the order in which they begin */
        uint64_t n_changes; /* policy_n_changes, when it began */
        uint64_t began_ns;
};

struct server {
        uv_loop_t loop;
        struct policy *policy;
        struct event_history *history; /* see event_log.h */
        struct page_sweeper *sweeper;
        uint32_t n_slots;           /* of each client */
        struct board_files *boards; /* see board_file.h */
        struct file_stock *stats_files;
        struct fd_closer *closer; /* of sockets that may take long to close; NULL: none does */
        struct lanes *lanes;      /* see daemon/server/transport/lanes.h */
        bool may_get_fds;         /* with frames: not all sockets forbid it */
        uint64_t incarnation;
        struct server_pool *pools;
        uint32_t n_pools;
        int pools_fd;            /* sealed memfd with the rows of all pools */
        bool pools_have_changed; /* since it was made */
        struct wake worker_wake;
        struct wake device_wake;
        uv_timer_t device_timeout;
        struct task giving_back;        /* memory, where a device has too little free */
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
                bool is_ready;        /* prewarming is done, and on_ready was called */
                uint64_t reported_ns; /* when progress was reported last */
        } prewarming;
        struct {
                uv_timer_t timer;
                struct task task;     /* a part of a pass over all blocks */
                uint64_t interval_ms; /* between passes */
        } aging;                      /* see aging_timer.h */
        struct {
                struct drain drain;
                uint64_t n_seconds; /* how long a shutdown waits for held memory */
                uv_timer_t timer;
                uv_signal_t sigterm;
                uv_signal_t sigint;
                uint64_t reported_ns; /* when progress was reported last */
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
                struct reply_bound of_users, of_operators;
                uv_timer_t timer;
                struct task task; /* those whose time is over, or that are too many */
        } reply_files;            /* see reply_files.h */
        struct {
                struct stats_look last; /* that is complete */
                struct stats_look next; /* that is under way */
                struct numbered_walk place;
                bool has_seen_blocks; /* all of them: the place is that of the boards */
                uint64_t n_begun;
                struct task looking; /* a part of it, for those who will ask */
        } stats;                     /* what all who ask with STATS share: see list_stats.h */
        struct listener *listener;
        struct session_list sessions;
        struct numbered sessions_by_number; /* for walks in parts */
        struct session_list ended_sessions; /* which are freed when none is at work */
        struct {
                LIST_HEAD(, driver_block) under_way;
                struct job_queue finished; /* of these: they wait for their step */
                struct task taking;        /* them from the workers */
        } jobs;                            /* see driver_jobs.h */
        /* Takes a finished job. execute_open sets it, so that pools need not know execute.c. */
        void (*end_job)(struct server *server, uint32_t pool, struct job *job);
        /* Takes a frame of a session in HELLO or READY. server_new sets it, so that sessions need not know
         * the requests. */
        void (*take_frame)(struct session *session, int r, const struct frame *frame);
        /* See server_execute. server_new sets it, so that lower rooms need not know execute.c. */
        void (*execute)(struct server *server);
        struct watched_file driver_file; /* see gpu_file_access.h */
        enum tenancy tenancy;
        uint64_t n_alone; /* tenants of one client so far: gives each a number */
        uid_t own_uid;
        char own_container
                [CGROUP_PATH_MAX]; /* the daemon's own container; "": none, or it cannot be read */
        bool serves_one_user;
        uint32_t served_uid;            /* valid if serves_one_user */
        const char *configuration_path; /* NULL: none; outlives the server */
        uint64_t limits_revision;       /* how often limits have been set, by any way */
        struct accounts accounts;       /* shares of users and tenants */
        struct scheduler scheduler;
        struct polling polling; /* connections that wait for their peers */
        struct {
                uv_timer_t timer;
                struct task task;          /* a part of a check */
                struct numbered_walk walk; /* the place of the check under way */
                bool is_any_left;          /* sessions that must be checked again */
        } timeouts; /* of peers that have not sent HELLO, or do not read: see timeouts.h */
        struct log_limit complaints; /* rate limit of log lines about clients */
        uint64_t n_unawaited;        /* see policy_n_unawaited */
        struct task serving; /* while the queues are to be served, and no other step comes */
        bool is_executing;
        uint64_t n_events; /* the policy's, at the end of the last step */
        bool is_dirty;     /* the policy was told something since its queues were served */
        bool has_served;   /* the queues were served since the deadlines were looked at */
        bool stopping;
};

/* Of sockets in which little is unread; NULL: they are closed at once. */
static inline struct fd_closer *server_fd_closer(const struct server *server)
{
        return server->may_get_fds ? server->closer : NULL;
}

static inline uint64_t server_now_ns(const struct server *server)
{
        return uv_now(&server->loop) * NS_PER_MS;
}

/* Executes what the policy decided. Call it after every event that the policy is told: an action is valid
 * when it is given, and may not be so after the next event. The queues are served at the end
 * of the step, and the deadline timer is set before the next look for news. */
static inline void server_execute(struct server *server)
{
        server->execute(server);
}

/* Whether a line about a client may be logged. The rate is limited, since clients can cause as many as they
 * like. */
static inline bool server_may_complain(struct server *server)
{
        return log_may(&server->complaints, LOG_WARNING, server_now_ns(server),
                       "faults of clients");
}
