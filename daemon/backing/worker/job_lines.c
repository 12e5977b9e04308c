/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/backing/worker/job_lines.h"

#include <stddef.h>

void job_lines_init(struct job_lines *lines)
{
        TAILQ_INIT(&lines->awaited);
        TAILQ_INIT(&lines->releases);
        lines->is_releases_turn = false;
}

static struct job *first_of(const struct job_queue *firsts, const void *user)
{
        struct job *first;

        TAILQ_FOREACH (first, firsts, link) {
                if (first->user == user)
                        return first;
        }
        return NULL;
}

void job_lines_put(struct job_lines *lines, struct job *job)
{
        struct job_queue *firsts = job->kind == JOB_RELEASE ? &lines->releases : &lines->awaited;
        struct job *first = first_of(firsts, job->user);

        TAILQ_INIT(&job->behind);
        TAILQ_INSERT_TAIL(first ? &first->behind : firsts, job, link);
}

/* The next one of the line takes the job's place, behind the other lines. */
static struct job *take(struct job_queue *firsts)
{
        struct job *job = TAILQ_FIRST(firsts), *next;

        if (!job)
                return NULL;
        TAILQ_REMOVE(firsts, job, link);
        next = TAILQ_FIRST(&job->behind);
        if (!next)
                return job;
        TAILQ_REMOVE(&job->behind, next, link);
        TAILQ_CONCAT(&next->behind, &job->behind, link);
        TAILQ_INSERT_TAIL(firsts, next, link);
        return job;
}

struct job *job_lines_take(struct job_lines *lines)
{
        struct job *job = take(lines->is_releases_turn ? &lines->releases : &lines->awaited);

        if (!job)
                job = take(lines->is_releases_turn ? &lines->awaited : &lines->releases);
        lines->is_releases_turn = job && job->kind != JOB_RELEASE;
        return job;
}
