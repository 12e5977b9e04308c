/* SPDX-License-Identifier: Apache-2.0 */
/* job_lines: whose job is next. */
#include "daemon/backing/worker/job_lines.h"

#include <string.h>

#include "tests/suite.h"

#define N_JOBS 64
#define MS     UINT64_C(1000000)

static struct job jobs[N_JOBS];
static struct backing_block blocks[N_JOBS];

/* Job `at` is of that user. */
static void put(struct job_lines *lines, unsigned at, unsigned user)
{
        jobs[at].user = user;
        job_lines_put(lines, &jobs[at]);
}

/* Job `at` is next, and takes so long. */
static void run(struct job_lines *lines, unsigned at, uint64_t n_ns)
{
        ck_assert_ptr_eq(job_lines_take(lines), &jobs[at]);
        job_lines_charge(lines, n_ns);
}

TEST(jobs_of_one_user_keep_their_order)
{
        struct job_lines lines;

        job_lines_init(&lines);
        ck_assert_ptr_null(job_lines_take(&lines));
        for (unsigned i = 0; i < 3; i++)
                put(&lines, i, 0);
        run(&lines, 0, MS);
        put(&lines, 3, 0);
        for (unsigned i = 1; i < 4; i++)
                run(&lines, i, MS);
        ck_assert_ptr_null(job_lines_take(&lines));
}

/* However many jobs another has. */
TEST(one_job_waits_for_one_of_each_other_user)
{
        struct job_lines lines;

        job_lines_init(&lines);
        for (unsigned i = 0; i < 40; i++)
                put(&lines, i, i % 2);
        run(&lines, 0, MS);
        put(&lines, 50, 2);
        put(&lines, 51, 2);
        run(&lines, 1, MS);
        run(&lines, 50, MS);
        run(&lines, 2, MS);
        run(&lines, 3, MS);
        run(&lines, 51, MS);
        for (unsigned i = 4; i < 40; i++)
                run(&lines, i, MS);
        ck_assert_ptr_null(job_lines_take(&lines));
}

static void put_release(struct job_lines *lines, unsigned at, unsigned user)
{
        jobs[at].kind = JOB_RELEASE;
        put(lines, at, user);
}

/* One that submits its long jobs one by one gets no more by that. */
TEST(a_user_without_jobs_still_owes)
{
        struct job_lines lines;

        job_lines_init(&lines);
        for (unsigned i = 0; i < 20; i++)
                put(&lines, i, 1);
        put(&lines, 30, 0);
        run(&lines, 0, MS);
        run(&lines, 30, 10 * MS);
        put(&lines, 31, 0);
        for (unsigned i = 1; i < 10; i++)
                run(&lines, i, MS);
        run(&lines, 31, 10 * MS);
        run(&lines, 10, MS);
        run(&lines, 11, MS);
        put(&lines, 32, 0);
        for (unsigned i = 12; i < 20; i++)
                run(&lines, i, MS);
        run(&lines, 32, MS);
}

/* Neither what it has used long ago, nor that it was idle, counts when it comes again. */
TEST(a_user_begins_level_with_the_others)
{
        struct job_lines lines;

        job_lines_init(&lines);
        put(&lines, 0, 0);
        run(&lines, 0, 3 * MS);
        for (unsigned i = 1; i < 9; i++)
                put(&lines, i, 1);
        for (unsigned i = 1; i < 5; i++)
                run(&lines, i, MS);
        put(&lines, 10, 0);
        put(&lines, 11, 0);
        put(&lines, 12, 0);
        run(&lines, 10, MS);
        run(&lines, 5, MS);
        run(&lines, 11, MS);
        run(&lines, 6, MS);
        run(&lines, 12, MS);
}

/* A job that hangs does not shut its user out for as long. */
TEST(a_job_counts_at_most_a_second)
{
        struct job_lines lines;

        job_lines_init(&lines);
        put(&lines, 0, 0);
        put(&lines, 1, 0);
        put(&lines, 10, 1);
        put(&lines, 11, 1);
        put(&lines, 12, 1);
        run(&lines, 0, 60 * JOB_MAX_NS);
        run(&lines, 10, JOB_MAX_NS / 2);
        run(&lines, 11, JOB_MAX_NS);
        run(&lines, 1, MS);
        run(&lines, 12, MS);
}

/* One that has large blocks made again and again would have most of the time. */
TEST(a_job_of_a_large_block_counts_more)
{
        struct job_lines lines;

        job_lines_init(&lines);
        blocks[0].n_bytes = 5 * JOB_MAX_NS;
        put(&lines, 0, 0);
        put(&lines, 1, 0);
        for (unsigned i = 10; i < 17; i++)
                put(&lines, i, 1);
        run(&lines, 0, 60 * JOB_MAX_NS);
        for (unsigned i = 10; i < 16; i++)
                run(&lines, i, JOB_MAX_NS);
        run(&lines, 1, MS);
        run(&lines, 16, MS);
}

/* Of more users than are remembered, those that owe least begin level. */
TEST(those_that_owe_most_are_remembered)
{
        struct job_lines lines;

        job_lines_init(&lines);
        for (unsigned i = 0; i <= JOB_LINES_DEBTS; i++) {
                jobs[i].user = i;
                job_lines_put(&lines, &jobs[i]);
        }
        for (unsigned i = 0; i <= JOB_LINES_DEBTS; i++)
                run(&lines, i, (2 + i) * MS);
        for (unsigned i = 0; i <= JOB_LINES_DEBTS; i++)
                job_lines_put(&lines, &jobs[JOB_LINES_DEBTS - i]);
        for (unsigned i = 0; i <= JOB_LINES_DEBTS; i++)
                run(&lines, i, MS);
}

/* A client waits for one release of what another process of its user has left, and memory goes back meanwhile. */
TEST(releases_and_other_jobs_of_a_user_take_turns)
{
        struct job_lines lines;

        job_lines_init(&lines);
        for (unsigned i = 10; i < 14; i++)
                put_release(&lines, i, 0);
        run(&lines, 10, MS);
        put(&lines, 0, 0);
        put(&lines, 1, 0);
        run(&lines, 11, MS);
        run(&lines, 0, MS);
        run(&lines, 12, MS);
        put(&lines, 2, 0);
        run(&lines, 1, MS);
        run(&lines, 13, MS);
        run(&lines, 2, MS);
        ck_assert_ptr_null(job_lines_take(&lines));
        put_release(&lines, 14, 0);
        put(&lines, 3, 0);
        run(&lines, 14, MS);
        run(&lines, 3, MS);
}

static void forget(void)
{
        memset(jobs, 0, sizeof(jobs));
        memset(blocks, 0, sizeof(blocks));
        for (unsigned i = 0; i < N_JOBS; i++)
                jobs[i].block = &blocks[i];
}

TESTS_MAIN("job lines", .start = forget)
