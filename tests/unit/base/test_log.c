/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines: a reader that is slow, or missing, blocks no process. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/log_thread.h"
#include "tests/suite.h"

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
        ck_assert_ptr_nonnull(
                strstr(read_all(), " lines were left out: stderr was not read in time\n"));
        ck_assert_ptr_nonnull(strstr(text, "test: info: again\n"));
        log_info("and again");
        ck_assert_str_eq(read_all(), "test: info: and again\n");
}

TEST(lines_that_others_cause_are_few)
{
        struct log_limit limit = LOG_LIMIT_NULL;
        unsigned n = 0;

        for (unsigned i = 0; i < 100; i++)
                n += log_may(&limit, LOG_WARNING, NS_PER_S + i, "uid 7");
        ck_assert_uint_eq(n, LOG_LINES_A_SECOND);
        ck_assert_uint_eq(count_lines(), 0);
        ck_assert(log_may(&limit, LOG_WARNING, 2 * NS_PER_S + 1, "uid 7"));
        ck_assert_str_eq(
                read_all(),
                "test: warning: 95 more lines about uid 7 were left out: 5 a second are written\n");
        ck_assert(log_may(&limit, LOG_WARNING, 3 * NS_PER_S + 2, "uid 7"));
        ck_assert_uint_eq(count_lines(), 0);
        for (unsigned i = 0; i < LOG_LINES_A_SECOND; i++)
                (void)log_may(&limit, LOG_WARNING, 3 * NS_PER_S + 2, "uid 7");
        ck_assert(log_may(&limit, LOG_WARNING, 5 * NS_PER_S, "uid 7"));
        ck_assert_str_eq(
                read_all(),
                "test: warning: 1 more line about uid 7 was left out: 5 a second are written\n");
}

/* Waits for the text, and returns all that has come. */
static const char *await_text(const char *wanted)
{
        size_t length = 0;

        text[0] = '\0';
        while (!strstr(text, wanted)) {
                struct pollfd poll_fd = {.fd = reader, .events = POLLIN};
                ssize_t n;

                ck_assert_int_gt(poll(&poll_fd, 1, 20000), 0);
                n = read(reader, text + length, sizeof(text) - 1 - length);
                ck_assert_int_gt(n, 0);
                length += (size_t)n;
                text[length] = '\0';
        }
        return text;
}

/* Fills the pipe; the number of bytes. */
static size_t fill_pipe(void)
{
        int flags = fcntl(STDERR_FILENO, F_GETFL);
        size_t n_bytes = 0;

        ck_assert_int_eq(fcntl(STDERR_FILENO, F_SETFL, flags | O_NONBLOCK), 0);
        while (write(STDERR_FILENO, "x", 1) == 1)
                n_bytes++;
        ck_assert_int_eq(fcntl(STDERR_FILENO, F_SETFL, flags), 0);
        return n_bytes;
}

TEST(a_thread_waits_for_the_reader_and_no_other_does)
{
        char wanted[64];

        ck_assert_int_eq(log_thread_start(), 0);
        (void)fill_pipe();
        for (unsigned i = 0; i < LOG_THREAD_LINES + 100; i++)
                log_info("line %u", i);
        (void)await_text("test: warning: 100 lines were left out: stderr was not read in time\n");
        (void)snprintf(wanted, sizeof(wanted), "test: info: line %d\n", LOG_THREAD_LINES - 1);
        ck_assert_ptr_nonnull(strstr(text, "test: info: line 0\n"));
        ck_assert_ptr_nonnull(strstr(text, wanted));
        (void)snprintf(wanted, sizeof(wanted), "test: info: line %d\n", LOG_THREAD_LINES);
        ck_assert_ptr_null(strstr(text, wanted));
        log_info("again");
        log_thread_stop();
        ck_assert_str_eq(read_all(), "test: info: again\n");
        log_info("without it");
        ck_assert_str_eq(read_all(), "test: info: without it\n");
}

/* The end does not wait for a reader that never comes. */
TEST(the_end_waits_for_a_while_only)
{
        ck_assert_int_eq(log_thread_start(), 0);
        (void)fill_pipe();
        log_info("never read");
        log_thread_stop();
}

TEST(a_child_writes_its_own_lines)
{
        int status;
        pid_t pid;

        ck_assert_int_eq(log_thread_start(), 0);
        pid = fork();
        if (pid == 0) {
                log_info("of the child");
                _exit(0);
        }
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
        ck_assert_str_eq(read_all(), "test: info: of the child\n");
        log_thread_stop();
}

/* The child has a thread of its own. Its last lines come before its death. */
TEST(last_words_are_written, .to = 2)
{
        int number = _i ? SIGSEGV : SIGABRT, status;
        pid_t pid = fork();

        if (pid == 0) {
                (void)signal(number, SIG_DFL);
                if (log_thread_start())
                        _exit(1);
                for (unsigned i = 0; i < 100; i++)
                        log_error("last words %u", i);
                (void)raise(number);
                _exit(2);
        }
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == number);
        (void)read_all();
        for (unsigned i = 0; i < 100; i++) {
                char wanted[64];

                (void)snprintf(wanted, sizeof(wanted), "test: error: last words %u\n", i);
                ck_assert_ptr_nonnull(strstr(text, wanted));
        }
}

TESTS_MAIN("log", .start = start)
