/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/backing/pinned/headroom.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "daemon/backing/pinned/nodes.h"
#include "gpumem.h"

#define GROUP_ROOT  "/sys/fs/cgroup"
#define GROUP_OF_ME "/proc/self/cgroup"
#define PATH_BYTES  4096

/* The part of the node's memory that is left to other processes. */
#define MARGIN_PART 64

static int read_group_file(const char *root, const char *path, const char *file,
                           char text[static TEXT_BYTES])
{
        char full[PATH_BYTES];

        if (snprintf(full, sizeof(full), "%s%s/%s", root, path, file) >= (int)sizeof(full))
                return -ENAMETOOLONG;
        return text_read(full, text);
}

/* Counts page cache as free: the kernel drops it when memory is short. */
static uint64_t room_in_group(const char *root, const char *path)
{
        char text[TEXT_BYTES];
        uint64_t n_max_bytes, n_used_bytes, n_file_bytes = 0;

        if (read_group_file(root, path, "memory.max", text) || text[0] == 'm')
                return UINT64_MAX;
        n_max_bytes = strtoull(text, NULL, 10);
        if (read_group_file(root, path, "memory.current", text))
                return UINT64_MAX;
        n_used_bytes = strtoull(text, NULL, 10);
        if (read_group_file(root, path, "memory.stat", text) == 0)
                n_file_bytes = text_figure(text, "active_file") +
                               text_figure(text, "inactive_file");
        n_used_bytes -= n_file_bytes < n_used_bytes ? n_file_bytes : n_used_bytes;
        return n_max_bytes > n_used_bytes ? n_max_bytes - n_used_bytes : 0;
}

uint64_t headroom_of_group(const char *root, const char *path)
{
        char here[PATH_BYTES];
        uint64_t n_bytes = UINT64_MAX;

        if (snprintf(here, sizeof(here), "%s", path) >= (int)sizeof(here))
                return UINT64_MAX;
        for (;;) {
                uint64_t n_here_bytes = room_in_group(root, here);
                char *slash = strrchr(here, '/');

                if (n_here_bytes < n_bytes)
                        n_bytes = n_here_bytes;
                if (!slash)
                        return n_bytes;
                *slash = '\0';
        }
}

/* The line of cgroup v2 is "0::PATH". */
static uint64_t headroom_of_me(void)
{
        char text[TEXT_BYTES], *path;

        if (text_read(GROUP_OF_ME, text))
                return UINT64_MAX;
        path = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
        if (!path)
                return UINT64_MAX;
        path = strchr(path, '/');
        if (!path)
                return UINT64_MAX;
        path[strcspn(path, "\n")] = '\0';
        return headroom_of_group(GROUP_ROOT, path);
}

int headroom_check(int node, uint64_t n_bytes)
{
        struct node_memory memory;
        uint64_t n_margin_bytes;

        node_read_memory(NODES_ROOT, node, &memory);
        n_margin_bytes = memory.n_total_bytes / MARGIN_PART;
        /* If the kernel shows no numbers, the allocation itself must tell. */
        if (memory.n_available_bytes && (memory.n_available_bytes < n_margin_bytes ||
                                         n_bytes > memory.n_available_bytes - n_margin_bytes))
                return GPUMEM_E_DEVICE_FULL;
        return n_bytes > headroom_of_me() ? GPUMEM_E_DEVICE_FULL : 0;
}
