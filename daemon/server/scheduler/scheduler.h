/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the daemon's work in steps: one frame, one connection, one part of a longer task. The payer of each step, and
 * whose step is next, is next_payer.h's affair. Between short turns of steps the loop looks for news. Knows no session.
 * On the loop.
 *
 * The admin socket is a payer beside the users, with the same share. It is also guaranteed a tenth of the time in which
 * it has work, however many users there are: an administrator that looks what is wrong with a busy node gets an answer.
 * So are arriving connections, until each waits for its user's turn: one does not wait for a share of one in many. Walks
 * through the queues of requests that wait are guaranteed half of the time: others' requests wait for their end. */
#pragma once

#include <stdint.h>
#include <uv.h>

#include "daemon/fairness/next_payer.h"

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
        struct payer everyone;
        struct payer admin;
        struct payer node;     /* for work that is of no user, or no longer of one */
        struct payer arriving; /* for connections until they wait for their user's turn */
        struct payer serving;  /* for walks through queues, where none gives cause any more */
        struct payer *payer;   /* of the step under way; NULL: none is */
        struct payer *second;  /* who pays for it as well, or NULL */
        struct {
                struct payer *payer;
                int64_t credit_ns; /* time to which it is entitled; from 0 on it is served before users */
                int64_t n_others; /* for each nanosecond of it others have so many */
        } guaranteed[3];          /* each before those behind it */
        uv_idle_t idle;           /* active while there is work: the loop does not block */
        struct scheduler_stats stats;
        struct {
                uint64_t wall_ns, cpu_ns, idle_ns;
        } read; /* the clocks, when the CPU's was last read: see own_time in scheduler.c */
        void (*after_step)(struct scheduler *scheduler);
};

/* after_step is called at the end of each step, as a part of it. */
int scheduler_open(struct scheduler *scheduler, uv_loop_t *loop,
                   void (*after_step)(struct scheduler *scheduler));

/* The handle is closed after the next loop iteration. All other payers have been unreferenced. */
void scheduler_close(struct scheduler *scheduler);
void scheduler_deinit(struct scheduler *scheduler);

/* The task has work, for which that payer pays. Also legal if that was said before. */
void scheduler_put(struct scheduler *scheduler, struct payer *payer, struct task *task);

/* That payer, too, pays for the step under way. Once in a step. */
void scheduler_charge_also(struct scheduler *scheduler, struct payer *payer);

/* Whether tasks wait for their steps. */
bool scheduler_has_work(const struct scheduler *scheduler);

/* The time of the CPU that the loop has had: its steps', and that of its looks for news. */
uint64_t scheduler_cpu_ns(const struct scheduler *scheduler);

/* Also legal for a task without work. */
void scheduler_take_out(struct task *task);
