/* SPDX-License-Identifier: Apache-2.0 */
/* Reading values out of a configuration: each function takes one value of one type, or reports what
 * is wrong with it and counts that. Key paths are texts such as "pools[1].max_bytes". One thread. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define KEY_PATH_MAX 256

struct reader {
        const char *file;
        void (*print)(void *argument, const char *sentence); /* takes what is wrong */
        void *argument;
        unsigned n_faults;
};

/* "FILE: PATH: SENTENCE"; without a path when it is empty. */
void reader_complain(struct reader *reader, const char *path, const char *format, ...)
        PRINTF_LIKE(3, 4);

/* The same for a value: "FILE: PATH: VALUE is no WHAT; allowed: ALLOWED". */
void reader_refuse(struct reader *reader, const char *path, const json_t *value, const char *what,
                   const char *allowed);

/* "UP.KEY", or KEY at the top; "UP[INDEX]". Cut to fit. */
void key_path(char path[static KEY_PATH_MAX], const char *up, const char *key);
void index_path(char path[static KEY_PATH_MAX], const char *up, size_t index);

/* Whether the value is an object whose keys are all among `keys`, which end with NULL. An object
 * with other keys is reported but read on: true. */
bool reader_object(struct reader *reader, const char *path, const json_t *value,
                   const char *const *keys);
bool reader_array(struct reader *reader, const char *path, const json_t *value);

/* Each leaves *value untouched and returns false when what is there is wrong. */
bool reader_text(struct reader *reader, const char *path, const json_t *json, const char **value);
bool reader_size(struct reader *reader, const char *path, const json_t *json, uint64_t least,
                 const char *allowed, uint64_t *value);
bool reader_fraction(struct reader *reader, const char *path, const json_t *json, double *value);
