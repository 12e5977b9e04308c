/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's NUMA nodes as the kernel shows them: which there are, and what memory they have now. Any thread. `root`
 * is NODES_ROOT but in tests; a machine that shows none has node 0, which is all of its memory. */
#pragma once

#include <stdint.h>

#define NODES_ROOT "/sys/devices/system/node"
#define NODES_MAX  64

struct nodes {
        int ids[NODES_MAX];
        unsigned n;
};

struct node_memory {
        uint64_t n_total_bytes;
        uint64_t n_available_bytes; /* without harm to others: free, or held by caches of files */
        uint64_t n_huge_pages;      /* of 2 MiB, free or not */
};

/* Reads a list such as "0-3,8". -EINVAL for anything else; -E2BIG beyond NODES_MAX. */
int nodes_parse(const char *text, struct nodes *ret_nodes);

/* The nodes that have memory, in order. */
void nodes_read(const char *root, struct nodes *ret_nodes);

/* What the node has, and never more available than the whole machine has. A figure that the kernel does not show is
 * 0. */
void node_read_memory(const char *root, int node, struct node_memory *ret_memory);
