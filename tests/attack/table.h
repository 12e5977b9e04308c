/* SPDX-License-Identifier: Apache-2.0 */
/* The table of results: a line for each figure, what was measured beside what is wanted. */
#pragma once

#include <stdbool.h>

#include "base/err.h"

enum verdict { HELD, MISSED, NO_VERDICT };

/* The names of the columns. */
void table_columns(void);

/* `attack` is the case, `what` the figure. `measured` and `wanted` are texts. */
void table_row(const char *attack, const char *what, enum verdict verdict, const char *wanted,
               const char *measured, ...) PRINTF_LIKE(5, 6);

unsigned table_n_missed(void);
