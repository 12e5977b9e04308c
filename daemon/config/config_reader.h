/* SPDX-License-Identifier: Apache-2.0 */
/* Reads values from a configuration: each function takes a value of one type, or reports the error and
 * counts it. Key paths are texts such as "pools[1].max_bytes". One thread. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define KEY_PATH_MAX 256

struct reader {
        const char *file;
        void (*print)(void *argument, const char *sentence); /* receives the error message */
        void *argument;
        unsigned n_faults;
};

/* Reports "FILE: PATH: SENTENCE", without PATH if it is empty. */
void reader_complain(struct reader *reader, const char *path, const char *format, ...)
        PRINTF_LIKE(3, 4);

/* Reports a wrong value: "FILE: PATH: invalid WHAT VALUE (expected ALLOWED)". */
void reader_refuse(struct reader *reader, const char *path, const json_t *value, const char *what,
                   const char *allowed);

/* Make "UP.KEY", or KEY at the top, and "UP[INDEX]", cut to fit. */
void key_path(char path[static KEY_PATH_MAX], const char *up, const char *key);
void index_path(char path[static KEY_PATH_MAX], const char *up, size_t index);

/* Whether the value is an object. Keys that are not among `keys`, a list that ends with NULL, are reported;
 * the result is still true. */
bool reader_object(struct reader *reader, const char *path, const json_t *value,
                   const char *const *keys);
bool reader_array(struct reader *reader, const char *path, const json_t *value);

/* Each leaves *value untouched and returns false if the value is wrong. */
bool reader_text(struct reader *reader, const char *path, const json_t *json, const char **value);
bool reader_size(struct reader *reader, const char *path, const json_t *json, uint64_t least,
                 const char *allowed, uint64_t *value);
bool reader_fraction(struct reader *reader, const char *path, const json_t *json, double *value);
