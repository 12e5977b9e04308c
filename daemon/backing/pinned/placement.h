/* SPDX-License-Identifier: Apache-2.0 */
/* On which NUMA node the pages of a mapping are put when they are faulted in. Any thread. */
#pragma once

#include <stdint.h>

enum placement {
        PLACEMENT_STRICT, /* there or not at all: a fault that finds no page fails */
        PLACEMENT_PREFERRED, /* there if it can be: where nothing may fail, the kernel would kill for it */
};

/* Of shared memory of 4 KiB pages it is the file that is told, so that every process's faults obey; of huge pages it is
 * this mapping. A system that does not let us place is left to place by itself, and the log says so once. */
int placement_set(void *bytes, uint64_t n_bytes, int node, enum placement placement);
