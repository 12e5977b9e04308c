/* SPDX-License-Identifier: Apache-2.0 */
/* The order of jobs. Those that clients wait for and releases take turns: a client waits for one release, however many
 * blocks a process leaves behind; and memory goes back as fast as it is made, however much others ask for. Each kind has
 * a line for each user, in the order of submission, and the users take turns: one job waits for one of each other user.
 * Pure: one thread, or under the owner's lock. */
#pragma once

#include <stdbool.h>

#include "daemon/backing/worker/backing.h"

struct job_lines {
        struct job_queue
                awaited; /* the first of each line; the one whose turn is next comes first */
        struct job_queue releases; /* the same */
        bool is_releases_turn;
};

void job_lines_init(struct job_lines *lines);
void job_lines_put(struct job_lines *lines, struct job *job);

/* NULL: there is none. */
struct job *job_lines_take(struct job_lines *lines);
