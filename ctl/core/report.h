/* SPDX-License-Identifier: Apache-2.0 */
/* How a command ends: what went wrong, or the JSON of its answer. One thread. */
#pragma once

#include <stdint.h>

#include "ctl/core/command.h"

/* Prints a value on stdout, or prints on stderr that memory ran out (NULL stands for that too);
 * returns the exit status. */
struct json_t;
int print_json_value(struct json_t *take_value);

/* Of an answer that goes on: prints a value as one line. -ENOMEM, for NULL too. */
int print_json_line(struct json_t *take_value);

/* Hands over what was printed, so that it can be piped; -errno: it could not be written. */
int flush_lines(void);

/* Its integers have a sign: what is more than the largest is that one. */
long long json_figure(uint64_t value);

/* Says on stderr that `what` failed with this result, and why if the library has said so; returns
 * STATUS_FAILURE or STATUS_NO_DAEMON. */
int report_failure(const char *what, int result);

/* The same for a connection that could not be made, for whatever reason; returns STATUS_NO_DAEMON. */
int report_unreachable(int result);

/* And what to do. */
int report_no_connection(int result, const struct arguments *arguments);

/* As report_failure, in the daemon's words, if it has said why. */
int report_refusal(struct link *link, const char *what, int result);

/* The same for a request that --tenant would have narrowed to what every user may do. */
int report_refusal_of(struct link *link, const char *what, int result,
                      const struct arguments *arguments);
