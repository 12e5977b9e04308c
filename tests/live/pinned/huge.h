/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's huge pages. A test may not set their number, so without any there is nothing to test. */
#pragma once

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

static inline uint64_t n_free_huge_pages(void)
{
        FILE *file = fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "re");
        uint64_t n = 0;

        if (!file || fscanf(file, "%" SCNu64, &n) != 1)
                n = 0;
        if (file)
                (void)fclose(file);
        return n;
}

/* Says so if there are too few; or more than a test should take. */
static inline bool huge_pages_tried(void)
{
        uint64_t n = n_free_huge_pages();

        if (n >= 4 && n <= 128)
                return true;
        (void)printf("# left out: huge pages: needs 4 to 128 free ones of 2 MiB, has %" PRIu64 "\n",
                     n);
        (void)fflush(stdout);
        return false;
}
