/* SPDX-License-Identifier: Apache-2.0 */
/* A process that shares and attaches memory: gpumem-share-demo, controlled line by line. Failures end the
 * test. GPUMEM_TEST_SHARER names the program. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/err.h"

struct sharer {
        pid_t pid; /* 0: it has ended, or never began */
        FILE *orders;
        FILE *answers;
        char answer[160]; /* the last one, what follows "ok " */
};

/* Starts it; option NULL: none. Without CUDA it loads no driver either. */
enum sharer_kind { SHARER_WITH_CUDA, SHARER_WITHOUT_CUDA };
void sharer_start(struct sharer *sharer, enum sharer_kind kind, const char *uid);

/* Tells it one line. 0, or the code of its error. */
int sharer_tell(struct sharer *sharer, const char *format, ...) PRINTF_LIKE(2, 3);

/* The same, which must go well: the answer. */
const char *sharer_must(struct sharer *sharer, const char *format, ...) PRINTF_LIKE(2, 3);

/* End of its input: it must end in order, if it has not ended. SIGKILL: it is gone. */
void sharer_end(struct sharer *sharer);
void sharer_kill(struct sharer *sharer);
