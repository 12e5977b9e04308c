/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the daemon's work in steps: one frame, one connection, one part of a longer task. The payer of each step, and
 * whose step is next, is next_payer.h's affair. Between short turns of steps it looks for news (fd_watch.h): of the payers' fds,
 * and of libuv's, which has the timers, the signals and the wakes of other threads. Knows no session. On the loop.
 *
 * The admin socket is a payer beside the users, with the same share. It is also guaranteed a tenth of the time in which
 * it has work, however many users there are: an administrator that looks what is wrong with a busy node gets an answer.
 * So are arriving connections, until each waits for its user's turn: one does not wait for a share of one in many. Walks
 * through the queues of requests that wait are guaranteed half of the time: others' requests wait for their end. */
#pragma once

#include <stdint.h>
#include <uv.h>

#include "daemon/fairness/next_payer.h"
#include "daemon/server/scheduler/fd_watch.h"

/* A step that takes longer is late. */
#define SCHEDULER_LATE_NS UINT64_C(100000)

struct scheduler_stats {
        uint64_t n_steps;
        uint64_t n_late; /* that took longer than SCHEDULER_LATE_NS */
        uint64_t longest_ns;
        uint64_t since_ns, since_cpu_ns; /* the clocks, when they began */
};

struct scheduler {
        uv_loop_t *loop;
        struct fd_watches watches;
        bool is_closed;
        struct payer everyone;
        struct payer admin;
        struct payer node;     /* for work that is of no user, or no longer of one */
        struct payer arriving; /* for connections until they wait for their user's turn */
        struct payer serving;  /* for walks through queues, where none gives cause any more */
        struct payer *payer;   /* of the step under way; NULL: none is */
        struct payer *second;  /* who pays for it as well, or NULL */
        struct guarantee {
                struct payer *payer;
                int64_t n_others; /* for each nanosecond of it others have so many */
                int64_t credit; /* the time to which it is entitled, in nanoseconds of the others; from 0 on it
                                     is served before users */
        } guaranteed[3];  /* each before those behind it */
        uint64_t idle_ns; /* in which it waited for news */
        struct scheduler_stats stats;
        struct {
                uint64_t wall_ns, cpu_ns, idle_ns;
        } read; /* the clocks, when the CPU's was last read: see own_time in scheduler.c */
        const struct scheduler_calls *calls;
};

/* Before scheduler_open; scheduler_deinit is legal. */
#define SCHEDULER_NULL ((struct scheduler){.watches = FD_WATCHES_NULL})

/* after_step: at the end of each step, as a part of it. after_turn: after each turn of steps, before the next look for news. */
struct scheduler_calls {
        void (*after_step)(struct scheduler *scheduler);
        void (*after_turn)(struct scheduler *scheduler);
};

/* Errors of the kernel's, -ENOMEM; what was opened is left to scheduler_deinit. What libuv shall watch is told to it before
 * the first scheduler_run_once, or in a callback of its own: libuv before 1.44 does not say that it has more to watch. */
int scheduler_open(struct scheduler *scheduler, uv_loop_t *loop,
                   const struct scheduler_calls *calls);

/* Looks for news, and waits for it if there is no work; runs the loop's callbacks that are due; takes a turn of steps. */
void scheduler_run_once(struct scheduler *scheduler);

/* From now on no step is taken. */
void scheduler_close(struct scheduler *scheduler);

/* All other payers have been unreferenced. */
void scheduler_deinit(struct scheduler *scheduler);

/* That payer, too, pays for the step under way. Once in a step. */
void scheduler_charge_also(struct scheduler *scheduler, struct payer *payer);

/* Of n_ns that end now: those in which the kernel ran no other thread in this one's place. */
uint64_t scheduler_own_time(const struct scheduler *scheduler, uint64_t now_ns, uint64_t n_ns);

/* Whether tasks wait for their steps. */
bool scheduler_has_work(const struct scheduler *scheduler);

/* The time of the CPU that the loop has had: its steps', and that of its looks for news. */
uint64_t scheduler_cpu_ns(const struct scheduler *scheduler);
