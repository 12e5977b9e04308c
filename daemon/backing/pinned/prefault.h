/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of a file that is to be pinned, put there by several threads before anybody is served: a process that maps it
 * finds all of it, and a machine without memory is an outcome here, not a signal there.
 *
 * Called by a pool's worker; the threads live no longer than the call. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What one thread faults in between two looks at what may end the work. */
#define PREFAULT_PIECE       (UINT64_C(16) << 20)
#define PREFAULT_MAX_THREADS 4

enum prefault_way {
        PREFAULT_ALLOCATE, /* pages are taken first, by fallocate, which gives them or says no */
        PREFAULT_RESERVED, /* the mapping has reserved them: huge pages */
};

struct prefault {
        int fd;      /* of the file */
        void *bytes; /* all of it, mapped */
        uint64_t n_bytes;
        enum prefault_way way;
        const char *name;             /* whose progress the debug log tells, every second */
        const atomic_bool *cancelled; /* set by any thread: give up soon */
        const atomic_bool *abandoned; /* the same, for this file alone */
};

/* GPUMEM_E_DEVICE_FULL: there is no memory; -ECANCELED; or a fault. What is there by then stays in the file, which the
 * caller closes. */
int prefault(const struct prefault *prefault);

/* What errno of fallocate, mmap or madvise is for a block: GPUMEM_E_DEVICE_FULL or a fault. */
int prefault_result(int error);
