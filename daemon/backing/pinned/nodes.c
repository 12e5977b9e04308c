/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/backing/pinned/nodes.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/size.h"
#include "base/text.h"

#define MACHINE_MEMORY "/proc/meminfo"
#define PATH_BYTES     256

static int add_range(struct nodes *nodes, unsigned long first, unsigned long last)
{
        if (last < first)
                return -EINVAL;
        if (last > INT32_MAX || last - first >= NODES_MAX - nodes->n)
                return -E2BIG;
        for (unsigned long id = first; id <= last; id++)
                nodes->ids[nodes->n++] = (int)id;
        return 0;
}

static bool is_digit(char c)
{
        return c >= '0' && c <= '9';
}

int nodes_parse(const char *text, struct nodes *ret_nodes)
{
        struct nodes nodes = {.n = 0};
        char *end = (char *)text;
        int r;

        do {
                unsigned long first, last;

                if (!is_digit(*end))
                        return -EINVAL;
                first = strtoul(end, &end, 10);
                last = first;
                if (*end == '-') {
                        if (!is_digit(end[1]))
                                return -EINVAL;
                        last = strtoul(end + 1, &end, 10);
                }
                r = add_range(&nodes, first, last);
                if (r)
                        return r;
        } while (*end++ == ',');
        end--;
        if (*end != '\0' && strcmp(end, "\n") != 0)
                return -EINVAL;
        *ret_nodes = nodes;
        return 0;
}

void nodes_read(const char *root, struct nodes *ret_nodes)
{
        static const char *const files[] = {"has_memory", "online"};
        char path[PATH_BYTES], text[TEXT_BYTES];

        for (unsigned i = 0; i < ARRAY_SIZE(files); i++) {
                (void)snprintf(path, sizeof(path), "%s/%s", root, files[i]);
                if (text_read(path, text) == 0 && nodes_parse(text, ret_nodes) == 0)
                        return;
        }
        *ret_nodes = (struct nodes){.ids = {0}, .n = 1};
}

static uint64_t kib(const char *text, const char *key)
{
        return text_figure(text, key) * KIB;
}

static void read_machine(struct node_memory *memory)
{
        char text[TEXT_BYTES];

        *memory = (struct node_memory){.n_total_bytes = 0};
        if (text_read(MACHINE_MEMORY, text))
                return;
        memory->n_total_bytes = kib(text, "MemTotal");
        memory->n_available_bytes = kib(text, "MemAvailable");
}

static uint64_t read_huge_pages(const char *root, int node)
{
        char path[PATH_BYTES], text[TEXT_BYTES];

        (void)snprintf(path, sizeof(path), "%s/node%d/hugepages/hugepages-2048kB/nr_hugepages",
                       root, node);
        return text_read(path, text) ? 0 : strtoull(text, NULL, 10);
}

void node_read_memory(const char *root, int node, struct node_memory *ret_memory)
{
        char path[PATH_BYTES], text[TEXT_BYTES];
        struct node_memory memory;
        uint64_t n_available;

        read_machine(&memory);
        memory.n_huge_pages = read_huge_pages(root, node);
        (void)snprintf(path, sizeof(path), "%s/node%d/meminfo", root, node);
        if (text_read(path, text) == 0) {
                memory.n_total_bytes = kib(text, "MemTotal");
                n_available = kib(text, "MemFree") + kib(text, "Active(file)") +
                              kib(text, "Inactive(file)") + kib(text, "SReclaimable");
                if (n_available < memory.n_available_bytes)
                        memory.n_available_bytes = n_available;
        }
        *ret_memory = memory;
}
