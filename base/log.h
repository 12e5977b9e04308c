/* SPDX-License-Identifier: Apache-2.0 */
/* Messages for the person who runs the process, on stderr: one line each, "name: level: text".
 * The threshold is an option of the process (GPUMEM_LOG or --log). Any thread. Libraries log at
 * debug level only, but for what a person has asked them for and does not get. A line that stderr would
 * wait for is left out and counted: a pipe without a reader delays no thread. A process whose threads
 * must not wait for a slow file either has a thread for the log: log_thread.h. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

/* `name` stands before every line and must live as long as the process. */
void log_setup(const char *name, enum log_level threshold);

/* The same for a library in a process that may have options of its own: its log_setup counts, before or after this. */
void log_setup_library(enum log_level threshold);

/* From now on each line begins with the time (UTC). For a process whose stderr gets no time from a supervisor. */
void log_show_time(void);

/* "error", "warning", "info" or "debug"; -EINVAL for anything else. */
int log_level_parse(const char *text, enum log_level *ret_level);

void log_line(enum log_level level, const char *format, ...) PRINTF_LIKE(2, 3);

/* Whether such lines are written: for those that take long to make. */
bool log_shows(enum log_level level);

/* The longest line, with its end; longer ones are cut. */
#define LOG_LINE_BYTES 1024

/* Lines go there instead of to stderr if it takes them. For log_thread.c; NULL: there is none. */
enum log_sink_result { LOG_SINK_TAKES, LOG_SINK_DECLINES };
void log_set_sink(enum log_sink_result (*sink)(const char *line, size_t length));

/* The line that tells of lines that were left out; returns its length. */
size_t log_format_left_out(unsigned long n_lines, char line[static LOG_LINE_BYTES]);

#define log_error(...)   log_line(LOG_ERROR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_WARNING, __VA_ARGS__)
#define log_info(...)    log_line(LOG_INFO, __VA_ARGS__)
/* The arguments are made only where the line is shown. */
#define log_debug(...) (log_shows(LOG_DEBUG) ? log_line(LOG_DEBUG, __VA_ARGS__) : (void)0)

/* Lines that clients can cause as often as they like: at most so many a second. */
#define LOG_LINES_A_SECOND 5

struct log_limit {
        uint64_t since_ns;
        unsigned n;
        unsigned n_left_out;
};

#define LOG_LIMIT_NULL ((struct log_limit){.since_ns = 0})

/* Whether one more may be written now; says how many were left out before, and that they are `about` someone. One
 * thread. */
bool log_may(struct log_limit *limit, enum log_level level, uint64_t now_ns, const char *about);
