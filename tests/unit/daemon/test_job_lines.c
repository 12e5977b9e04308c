/* SPDX-License-Identifier: Apache-2.0 */
/* job_lines: whose job is next. */
#include "daemon/backing/worker/job_lines.h"
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

TESTS_MAIN("job lines")
