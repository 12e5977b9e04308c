/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

/* The process's own options, set once before threads start. */
static const char *process_name = "gpumem";
static _Atomic enum log_level process_threshold = LOG_WARNING;
static _Atomic bool is_set_up;

static _Atomic bool shows_time;

static enum log_sink_result (*_Atomic process_sink)(const char *line, size_t length);

static const char *const level_names[] = {[LOG_ERROR] = "error",
                                          [LOG_WARNING] = "warning",
                                          [LOG_INFO] = "info",
                                          [LOG_DEBUG] = "debug"};

void log_setup(const char *name, enum log_level threshold)
{
        process_name = name;
        process_threshold = threshold;
        is_set_up = true;
}

void log_setup_library(enum log_level threshold)
{
        if (!is_set_up)
                process_threshold = threshold;
}

void log_show_time(void)
{
        shows_time = true;
}

/* "2026-01-31T23:59:59.123Z ", or nothing; returns its length. */
static size_t put_time(char *line, size_t n_line)
{
        struct timespec now;
        struct tm parts;

        line[0] = '\0';
        if (!shows_time || clock_gettime(CLOCK_REALTIME, &now) || !gmtime_r(&now.tv_sec, &parts))
                return 0;
        (void)strftime(line, n_line, "%Y-%m-%dT%H:%M:%S", &parts);
        (void)snprintf(line + strlen(line), n_line - strlen(line), ".%03ldZ ",
                       now.tv_nsec / 1000000);
        return strlen(line);
}

int log_level_parse(const char *text, enum log_level *ret_level)
{
        for (unsigned i = 0; i < ARRAY_SIZE(level_names); i++) {
                if (strcmp(text, level_names[i]) == 0) {
                        *ret_level = (enum log_level)i;
                        return 0;
                }
        }
        return -EINVAL;
}

/* Between a look at stderr and the write, so that its room is still there. */
static pthread_mutex_t write_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long n_left_out;

/* The thread that had the lock is the parent's. */
static void after_fork_in_child(void)
{
        pthread_mutex_init(&write_lock, NULL);
}

/* When the code is loaded: a fork that is under way calls no handler that comes later. */
__attribute__((constructor)) static void watch_forks(void)
{
        (void)pthread_atfork(NULL, NULL, after_fork_in_child);
}

/* Not O_NONBLOCK: that would be so for every process that has this stderr. What can be written to has
 * room for a line (of a pipe, a page). */
static bool has_room(void)
{
        struct pollfd poll_fd = {.fd = STDERR_FILENO, .events = POLLOUT};

        return poll(&poll_fd, 1, 0) > 0;
}

static void write_line(const char *line, size_t length)
{
        if (write(STDERR_FILENO, line, length) < 0) {
                /* Nothing can be reported any more. */
        }
}

void log_set_sink(enum log_sink_result (*sink)(const char *line, size_t length))
{
        process_sink = sink;
}

size_t log_format_left_out(unsigned long n_lines, char line[static LOG_LINE_BYTES])
{
        size_t length = put_time(line, LOG_LINE_BYTES);

        (void)snprintf(line + length, LOG_LINE_BYTES - length,
                       "%s: warning: %lu lines were left out: stderr was not read in time\n",
                       process_name, n_lines);
        return strlen(line);
}

static void tell_left_out(void)
{
        char line[LOG_LINE_BYTES];
        size_t length = log_format_left_out(n_left_out, line);

        n_left_out = 0;
        write_line(line, length);
}

/* One write a line, so that lines of several threads and processes do not mix. */
static void put_line(const char *line, size_t length)
{
        pthread_mutex_lock(&write_lock);
        if (n_left_out && has_room())
                tell_left_out();
        if (has_room())
                write_line(line, length);
        else
                n_left_out++;
        pthread_mutex_unlock(&write_lock);
}

bool log_shows(enum log_level level)
{
        return level <= process_threshold;
}

void log_line(enum log_level level, const char *format, ...)
{
        enum log_sink_result (*sink)(const char *, size_t) = process_sink;
        char line[LOG_LINE_BYTES];
        int saved = errno;
        size_t length;
        va_list arguments;

        if (!log_shows(level))
                return;
        length = put_time(line, sizeof(line));
        (void)snprintf(line + length, sizeof(line) - length, "%s: %s: ", process_name,
                       level_names[level]);
        length = strlen(line);
        va_start(arguments, format);
        (void)vsnprintf(line + length, sizeof(line) - length - 1, format, arguments);
        va_end(arguments);
        length = strlen(line);
        line[length++] = '\n';
        if (!sink || sink(line, length) == LOG_SINK_DECLINES)
                put_line(line, length);
        errno = saved;
}

bool log_may(struct log_limit *limit, enum log_level level, uint64_t now_ns, const char *about)
{
        if (now_ns - limit->since_ns >= NS_PER_S) {
                if (limit->n_left_out)
                        log_line(level, "%u more %s about %s %s left out: %d a second are written",
                                 limit->n_left_out, limit->n_left_out == 1 ? "line" : "lines",
                                 about, limit->n_left_out == 1 ? "was" : "were",
                                 LOG_LINES_A_SECOND);
                *limit = (struct log_limit){.since_ns = now_ns};
        }
        if (limit->n == LOG_LINES_A_SECOND) {
                limit->n_left_out++;
                return false;
        }
        limit->n++;
        return true;
}
