/* SPDX-License-Identifier: Apache-2.0 */
/* Values of options, as a person writes them. Pure, except that names of users are looked up. */
#pragma once

#include <stdint.h>

/* Digits, and nothing else. -EINVAL for anything else, and for what is too large. */
int parse_number(const char *text, uint64_t *ret_number);

/* Seconds, in milliseconds: digits, and behind a point up to three more. -EINVAL for anything else, and for what is too
 * large. */
int parse_milliseconds(const char *text, uint64_t *ret_ms);

/* A uid, or the name of a user. -EINVAL: it is neither. */
int parse_user(const char *text, uint32_t *ret_uid);

/* The name of a file to write, or "-". -EINVAL, and stderr says so: it is empty. */
int parse_file(const char *option, const char *text, const char **ret_path);

/* Prints on stderr: gpumemctl: invalid --pid "x" (expected 1-2147483647). Returns -EINVAL. */
int parse_refuse(const char *option, const char *text, const char *expected);
