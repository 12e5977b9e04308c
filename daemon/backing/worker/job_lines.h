/* SPDX-License-Identifier: Apache-2.0 */
/* The order of jobs: a line for each user, in the order of submission, and the users by turns. So one job waits for one
 * of each other user, however many these have. Pure: one thread, or under the owner's lock. */
#pragma once

#include "daemon/backing/worker/backing.h"

struct job_lines {
        struct job_queue firsts; /* of each line, the one whose turn is next first */
};

void job_lines_init(struct job_lines *lines);
void job_lines_put(struct job_lines *lines, struct job *job);

/* NULL: there is none. */
struct job *job_lines_take(struct job_lines *lines);
