/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/backing/worker/job_lines.h"

#include <stdbool.h>
#include <stddef.h>

void job_lines_init(struct job_lines *lines)
{
        *lines = (struct job_lines){.served = {0, 0}};
        TAILQ_INIT(&lines->firsts);
}

static struct job *find_first(struct job_lines *lines, uint64_t user)
{
        struct job *first;

        TAILQ_FOREACH (first, &lines->firsts, link) {
                if (first->user == user)
                        return first;
        }
        return NULL;
}

static struct job_queue *queue_of(struct job *first, bool is_release)
{
        return is_release ? &first->releases_behind : &first->others_behind;
}

static uint64_t level_of(const struct job_lines *lines, uint64_t user)
{
        for (unsigned i = 0; i < JOB_LINES_DEBTS; i++) {
                const struct job_debt *debt = &lines->debts[i];

                if (debt->user == user && debt->used_ns > lines->served.used_ns)
                        return debt->used_ns;
        }
        return lines->served.used_ns;
}

static void begin_line(struct job_lines *lines, struct job *first, uint64_t used_ns)
{
        TAILQ_INIT(&first->releases_behind);
        TAILQ_INIT(&first->others_behind);
        first->used_ns = used_ns;
        TAILQ_INSERT_TAIL(&lines->firsts, first, link);
}

void job_lines_put(struct job_lines *lines, struct job *job)
{
        struct job *first = find_first(lines, job->user);

        if (first)
                TAILQ_INSERT_TAIL(queue_of(first, job->kind == JOB_RELEASE), job, link);
        else
                begin_line(lines, job, level_of(lines, job->user));
}

/* The line goes on behind those of other users that have used as much. */
static void take_out(struct job_lines *lines, struct job *job)
{
        bool is_release = job->kind == JOB_RELEASE;
        struct job *next = TAILQ_FIRST(queue_of(job, !is_release));

        if (!next)
                next = TAILQ_FIRST(queue_of(job, is_release));
        TAILQ_REMOVE(&lines->firsts, job, link);
        if (!next)
                return;
        TAILQ_REMOVE(queue_of(job, next->kind == JOB_RELEASE), next, link);
        begin_line(lines, next, job->used_ns);
        TAILQ_CONCAT(&next->releases_behind, &job->releases_behind, link);
        TAILQ_CONCAT(&next->others_behind, &job->others_behind, link);
}

struct job *job_lines_take(struct job_lines *lines)
{
        struct job *job = TAILQ_FIRST(&lines->firsts), *other;

        if (!job)
                return NULL;
        TAILQ_FOREACH (other, &lines->firsts, link) {
                if (other->used_ns < job->used_ns)
                        job = other;
        }
        take_out(lines, job);
        lines->served = (struct job_debt){job->user, job->used_ns};
        lines->most_ns = JOB_MAX_NS + job->block->n_bytes;
        return job;
}

/* In the place of its earlier debt, or of the least one. */
static void note_debt(struct job_lines *lines, const struct job_debt *debt)
{
        struct job_debt *least = &lines->debts[0];

        for (unsigned i = 0; i < JOB_LINES_DEBTS; i++) {
                struct job_debt *other = &lines->debts[i];

                if (other->user == debt->user) {
                        *other = *debt;
                        return;
                }
                if (other->used_ns < least->used_ns)
                        least = other;
        }
        if (least->used_ns < debt->used_ns)
                *least = *debt;
}

void job_lines_charge(struct job_lines *lines, uint64_t n_ns)
{
        struct job_debt debt = lines->served;
        struct job *first = find_first(lines, debt.user);

        debt.used_ns += n_ns < lines->most_ns ? n_ns : lines->most_ns;
        if (first)
                first->used_ns = debt.used_ns;
        else
                note_debt(lines, &debt);
}
