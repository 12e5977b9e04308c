/* SPDX-License-Identifier: Apache-2.0 */
/* Sets the NUMA node of a mapping's pages. Any thread. */
#pragma once

#include <stdint.h>

enum placement {
        PLACEMENT_STRICT, /* on the node or not at all: a fault without a free page there fails */
        PLACEMENT_PREFERRED, /* on the node if possible; for faults that cannot fail, where the kernel would kill */
};

/* For shared memory of 4 KiB pages this sets the file's policy, so that every process's faults follow it;
 * for huge pages only this mapping's. If the system forbids it, the kernel's own placement applies, and one
 * log line says so. A node that a cpuset leaves out can be preferred, and not had: then another's pages do. */
int placement_set(void *bytes, uint64_t n_bytes, int node, enum placement placement);
