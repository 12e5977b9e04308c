/* SPDX-License-Identifier: Apache-2.0 */
/* Large tables that are looked at all over: a processor finds few of their pages without looking in memory
 * for them too, unless the pages are large. Any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "base/size.h"

#define PAGES_LARGE_BYTES (2 * MIB)

/* Of what lies in the large pages between the two ends: a wish, which the kernel may not grant. */
static inline void pages_wish_large(void *memory, size_t n_bytes)
{
        uintptr_t start = ((uintptr_t)memory + PAGES_LARGE_BYTES - 1) & -PAGES_LARGE_BYTES;
        uintptr_t end = ((uintptr_t)memory + n_bytes) & -PAGES_LARGE_BYTES;

        if (start < end)
                (void)madvise((void *)start, end - start, MADV_HUGEPAGE);
}
