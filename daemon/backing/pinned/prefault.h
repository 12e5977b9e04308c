/* SPDX-License-Identifier: Apache-2.0 */
/* Faults in all pages of a file for pinning, with several threads, before a client gets it. A client so
 * finds all pages present, and a lack of memory is an error here instead of a signal there.
 *
 * Called by a pool's worker; the threads end with the call. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* How much one thread faults in between two checks for an abort. */
#define PREFAULT_PIECE       (UINT64_C(16) << 20)
#define PREFAULT_MAX_THREADS 4

enum prefault_way {
        PREFAULT_ALLOCATE, /* fallocate takes the pages first, or fails */
        PREFAULT_RESERVED, /* the mapping has reserved the pages: huge pages */
};

struct prefault {
        int fd;      /* the file */
        void *bytes; /* a mapping of the whole file */
        uint64_t n_bytes;
        enum prefault_way way;
        const char *name;             /* for the progress in the debug log, every second */
        const atomic_bool *cancelled; /* set by any thread: abort soon */
        const atomic_bool *abandoned; /* the same, for this file alone */
};

/* GPUMEM_E_DEVICE_FULL: not enough memory; -ECANCELED; or a fault. Pages that exist by then stay in the
 * file, which the caller closes. */
int prefault(const struct prefault *prefault);

/* The result for an errno of fallocate, mmap or madvise: GPUMEM_E_DEVICE_FULL or a fault. */
int prefault_result(int error);
