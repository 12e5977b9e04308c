/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/backing/worker/job_lines.h"

#include <stddef.h>

void job_lines_init(struct job_lines *lines)
{
        TAILQ_INIT(&lines->firsts);
}

static struct job *first_of(const struct job_lines *lines, const void *user)
{
        struct job *first;

        TAILQ_FOREACH (first, &lines->firsts, link) {
                if (first->user == user)
                        return first;
        }
        return NULL;
}

void job_lines_put(struct job_lines *lines, struct job *job)
{
        struct job *first = first_of(lines, job->user);

        TAILQ_INIT(&job->behind);
        TAILQ_INSERT_TAIL(first ? &first->behind : &lines->firsts, job, link);
}

/* The next one of the line takes the job's place, behind the other lines. */
struct job *job_lines_take(struct job_lines *lines)
{
        struct job *job = TAILQ_FIRST(&lines->firsts), *next;

        if (!job)
                return NULL;
        TAILQ_REMOVE(&lines->firsts, job, link);
        next = TAILQ_FIRST(&job->behind);
        if (!next)
                return job;
        TAILQ_REMOVE(&job->behind, next, link);
        TAILQ_CONCAT(&next->behind, &job->behind, link);
        TAILQ_INSERT_TAIL(&lines->firsts, next, link);
        return job;
}
