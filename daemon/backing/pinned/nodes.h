/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's NUMA nodes and their memory, as the kernel shows them. Any thread. `root` is NODES_ROOT
 * except in tests. A machine that shows no nodes has node 0 with all of its memory. */
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
        uint64_t n_available_bytes; /* free, or used by the page cache */
        uint64_t n_huge_pages;      /* 2 MiB pages, free or used */
};

/* Reads a list such as "0-3,8". -EINVAL for anything else; -E2BIG beyond NODES_MAX. */
int nodes_parse(const char *text, struct nodes *ret_nodes);

/* The nodes that have memory, in ascending order. */
void nodes_read(const char *root, struct nodes *ret_nodes);

/* The node's memory; never more available than the whole machine has. 0: the kernel does not show the
 * number. */
void node_read_memory(const char *root, int node, struct node_memory *ret_memory);
