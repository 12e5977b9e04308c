/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines: a reader that is slow, or missing, blocks no process. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "tests/suite.h"

#define NS_PER_S UINT64_C(1000000000)

static int reader;

/* Each test is a process of its own, which reads its own stderr through a pipe. */
static void start(void)
{
        int ends[2];

        ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
        ck_assert_int_eq(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
        ck_assert_int_eq(close(ends[1]), 0);
        reader = ends[0];
        ck_assert_int_eq(fcntl(reader, F_SETFL, O_NONBLOCK), 0);
        log_setup("test", LOG_INFO);
}

static char text[1 << 20];

static const char *read_all(void)
{
        size_t length = 0;
        ssize_t n;

        while ((n = read(reader, text + length, sizeof(text) - 1 - length)) > 0)
                length += (size_t)n;
        text[length] = '\0';
        return text;
}

static unsigned count_lines(void)
{
        unsigned n = 0;

        for (const char *line = read_all(); (line = strchr(line, '\n')); line++)
                n++;
        return n;
}

TEST(a_line_names_process_and_level)
{
        log_info("%d bottles", 99);
        log_debug("too much");
        ck_assert_str_eq(read_all(), "test: info: 99 bottles\n");
}

/* A pipe without a reader takes 64 KiB; later lines are dropped, and their number is logged afterwards. */
TEST(an_unread_pipe_blocks_nobody)
{
        for (unsigned i = 0; i < 10000; i++)
                log_info("%u lines about this and that and the other", i);
        ck_assert_ptr_nonnull(strstr(read_all(), "test: info: 7 lines"));
        log_info("again");
        ck_assert_ptr_nonnull(strstr(read_all(), "lines were lost"));
        ck_assert_ptr_nonnull(strstr(text, "test: info: again\n"));
        log_info("and again");
        ck_assert_str_eq(read_all(), "test: info: and again\n");
}

TEST(lines_that_others_cause_are_few)
{
        struct log_limit limit = LOG_LIMIT_NULL;
        unsigned n = 0;

        for (unsigned i = 0; i < 100; i++)
                n += log_may(&limit, LOG_WARNING, NS_PER_S + i);
        ck_assert_uint_eq(n, LOG_LINES_A_SECOND);
        ck_assert_uint_eq(count_lines(), 0);
        ck_assert(log_may(&limit, LOG_WARNING, 2 * NS_PER_S + 1));
        ck_assert_str_eq(read_all(), "test: warning: 95 lines like the next were left out\n");
        ck_assert(log_may(&limit, LOG_WARNING, 3 * NS_PER_S + 2));
        ck_assert_uint_eq(count_lines(), 0);
}

TESTS_MAIN("log", .start = start)
