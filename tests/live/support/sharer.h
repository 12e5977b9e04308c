/* SPDX-License-Identifier: Apache-2.0 */
/* A process that shares and attaches memory: gpumem-share-demo, controlled line by line. Failures end the
 * test. GPUMEM_TEST_SHARER names the program. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/err.h"

struct sharer {
        pid_t pid; /* 0: it has ended, or was not started */
        FILE *orders;
        FILE *answers;
        char answer[160]; /* the last answer, after "ok " */
};

/* Starts it; option NULL: none. Without CUDA it does not load a driver either. */
enum sharer_kind { SHARER_WITH_CUDA, SHARER_WITHOUT_CUDA };
void sharer_start(struct sharer *sharer, enum sharer_kind kind, const char *uid);

/* Sends it one line. 0, or the code of its error. */
int sharer_tell(struct sharer *sharer, const char *format, ...) PRINTF_LIKE(2, 3);

/* The same for a line that must succeed; returns the answer. */
const char *sharer_must(struct sharer *sharer, const char *format, ...) PRINTF_LIKE(2, 3);

/* Closes its input: it must end in order, unless it has ended. The next function kills it by SIGKILL. */
void sharer_end(struct sharer *sharer);
void sharer_kill(struct sharer *sharer);
