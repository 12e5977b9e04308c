/* SPDX-License-Identifier: Apache-2.0 */
/* The order of jobs. Each user has a line, and so has each container that root runs. The next job is that of the user
 * whose jobs have taken least time. So one waits for no more of another's time than its own jobs take, and for the job
 * that runs. In a line, releases and other jobs take turns, each in the order of submission. So a client waits for one
 * release, however many blocks another process of its user leaves behind.
 *
 * A user without jobs gets no credit for that: it begins level with the one that was served last. What it took more
 * than others it still owes; of more users than JOB_LINES_DEBTS, those that owe most. Pure: one thread, or under the
 * owner's lock. */
#pragma once

#include "daemon/backing/worker/backing.h"

#define JOB_LINES_DEBTS 32

/* The most that one job counts, besides a nanosecond for each byte: a driver that hangs is not its user's fault, but a user
 * that has 64 GiB of pinned memory made knows that it takes long. */
#define JOB_MAX_NS UINT64_C(1000000000)

struct job_lines {
        struct job_queue firsts; /* the next one of each line */
        struct job_debt {
                uint64_t user;
                uint64_t used_ns;
        } served,                       /* the user whose job was taken last */
                debts[JOB_LINES_DEBTS]; /* of users without a line, if more than served.used_ns */
        uint64_t most_ns;               /* that the job counts that was taken last */
};

void job_lines_init(struct job_lines *lines);
void job_lines_put(struct job_lines *lines, struct job *job);

/* NULL: there is none. */
struct job *job_lines_take(struct job_lines *lines);

/* The job that was taken last has taken so long. */
void job_lines_charge(struct job_lines *lines, uint64_t n_ns);
