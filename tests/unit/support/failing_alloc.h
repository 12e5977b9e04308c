/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that runs out when a test says so. The linker leads malloc, calloc, aligned_alloc and realloc of
 * all that is linked with it through this module (--wrap). One thread. */
#pragma once

#include <stdbool.h>

/* How many calls succeed before one fails; negative: none fails. Check's own asserts allocate, too. */
extern int n_until_failure;

/* None succeeds. */
extern bool is_memory_gone;
