/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support/failing_alloc.h"

#include <stddef.h>

void *__real_aligned_alloc(size_t alignment, size_t n_bytes);
void *__real_calloc(size_t n, size_t n_bytes);
void *__real_malloc(size_t n_bytes);
void *__real_realloc(void *old, size_t n_bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t n_bytes);
void *__wrap_calloc(size_t n, size_t n_bytes);
void *__wrap_malloc(size_t n_bytes);
void *__wrap_realloc(void *old, size_t n_bytes);

int n_until_failure = -1;
bool is_memory_gone;

static bool is_time_to_fail(void)
{
        return is_memory_gone || (n_until_failure >= 0 && n_until_failure-- == 0);
}

void *__wrap_aligned_alloc(size_t alignment, size_t n_bytes)
{
        return is_time_to_fail() ? NULL : __real_aligned_alloc(alignment, n_bytes);
}

void *__wrap_calloc(size_t n, size_t n_bytes)
{
        return is_time_to_fail() ? NULL : __real_calloc(n, n_bytes);
}

void *__wrap_malloc(size_t n_bytes)
{
        return is_time_to_fail() ? NULL : __real_malloc(n_bytes);
}

void *__wrap_realloc(void *old, size_t n_bytes)
{
        return is_time_to_fail() ? NULL : __real_realloc(old, n_bytes);
}
