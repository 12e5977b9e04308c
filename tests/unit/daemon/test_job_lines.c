/* SPDX-License-Identifier: Apache-2.0 */
/* job_lines: whose job is next. */
#include "daemon/backing/worker/job_lines.h"

#include <string.h>

#include "tests/suite.h"

#define N_JOBS 64

static struct job jobs[N_JOBS];
static const char users[3];

/* Job `at` is of that user. */
static void put(struct job_lines *lines, unsigned at, unsigned user)
{
        jobs[at].user = &users[user];
        job_lines_put(lines, &jobs[at]);
}

static void expect(struct job_lines *lines, unsigned at)
{
        ck_assert_ptr_eq(job_lines_take(lines), &jobs[at]);
}

TEST(jobs_of_one_user_keep_their_order)
{
        struct job_lines lines;

        job_lines_init(&lines);
        ck_assert_ptr_null(job_lines_take(&lines));
        for (unsigned i = 0; i < 3; i++)
                put(&lines, i, 0);
        expect(&lines, 0);
        put(&lines, 3, 0);
        for (unsigned i = 1; i < 4; i++)
                expect(&lines, i);
        ck_assert_ptr_null(job_lines_take(&lines));
}

/* However many jobs another has. */
TEST(one_job_waits_for_one_of_each_other_user)
{
        struct job_lines lines;

        job_lines_init(&lines);
        for (unsigned i = 0; i < 40; i++)
                put(&lines, i, i % 2);
        expect(&lines, 0);
        put(&lines, 50, 2);
        put(&lines, 51, 2);
        expect(&lines, 1);
        expect(&lines, 2);
        expect(&lines, 50);
        for (unsigned i = 3; i < 5; i++)
                expect(&lines, i);
        expect(&lines, 51);
        for (unsigned i = 5; i < 40; i++)
                expect(&lines, i);
        ck_assert_ptr_null(job_lines_take(&lines));
}

static void put_release(struct job_lines *lines, unsigned at, unsigned user)
{
        jobs[at].kind = JOB_RELEASE;
        put(lines, at, user);
}

/* Neither waits for all of the other: a client for a dead process's blocks, or memory for a client that asks on. */
TEST(releases_and_other_jobs_take_turns)
{
        struct job_lines lines;

        job_lines_init(&lines);
        for (unsigned i = 10; i < 14; i++)
                put_release(&lines, i, 0);
        expect(&lines, 10);
        put(&lines, 0, 1);
        put(&lines, 1, 1);
        expect(&lines, 0);
        expect(&lines, 11);
        put(&lines, 2, 1);
        expect(&lines, 1);
        expect(&lines, 12);
        expect(&lines, 2);
        expect(&lines, 13);
        ck_assert_ptr_null(job_lines_take(&lines));
        put_release(&lines, 14, 0);
        put(&lines, 3, 1);
        expect(&lines, 3);
        expect(&lines, 14);
}

static void forget(void)
{
        memset(jobs, 0, sizeof(jobs));
}

TESTS_MAIN("job lines", .start = forget)
