/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/live/support/containers.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"

#define N_CONTAINERS   320
#define CGROUP2_MAGIC  0x63677270
#define CGROUP_MAGIC   0x27e0eb
#define PATH_BYTES     160
#define DIGITS_OF_REST 52
#define REMOVAL_MS     10000

static const struct {
        const char *folder;
        long magic;
} places[CGROUPS_N_TREES][2] = {
        [CGROUPS_OF_V2] = {{"/sys/fs/cgroup", CGROUP2_MAGIC},
                           {"/sys/fs/cgroup/unified", CGROUP2_MAGIC}},
        [CGROUPS_OF_V1] = {{"/sys/fs/cgroup/systemd", CGROUP_MAGIC}},
};

/* Not by Check: programs that are no tests use this, too. */
static void must(bool is_so, const char *what)
{
        if (is_so)
                return;
        perror(what);
        abort();
}

static const char *root_of(enum cgroup_tree tree)
{
        for (unsigned i = 0; i < ARRAY_SIZE(places[tree]); i++) {
                const char *folder = places[tree][i].folder;
                struct statfs fs;

                if (folder && statfs(folder, &fs) == 0 && fs.f_type == places[tree][i].magic)
                        return folder;
        }
        return NULL;
}

static void name_path(enum cgroup_tree tree, unsigned n, char path[static PATH_BYTES])
{
        char id[CONTAINER_SHORT_ID_BYTES];

        (void)snprintf(path, PATH_BYTES, "%s/docker-%s%0*d.scope", root_of(tree),
                       container_short_id(n, id), DIGITS_OF_REST, 0);
}

/* The name contains the pid of the test's main process. */
const char *container_short_id(unsigned n, char ret_id[static CONTAINER_SHORT_ID_BYTES])
{
        (void)snprintf(ret_id, CONTAINER_SHORT_ID_BYTES, "%08x%04x", (unsigned)getpid(), n);
        return ret_id;
}

static bool move_to(const char *folder)
{
        CLEANUP(closep)
        int fd = -1;
        char path[PATH_BYTES + 16];

        (void)snprintf(path, sizeof(path), "%s/cgroup.procs", folder);
        fd = open(path, O_WRONLY | O_CLOEXEC);
        return fd >= 0 && write(fd, "0", 1) == 1;
}

bool containers_can_be_made(enum cgroup_tree tree)
{
        char path[PATH_BYTES];
        bool can;

        if (!root_of(tree))
                return false;
        name_path(tree, N_CONTAINERS, path);
        can = mkdir(path, 0755) == 0 && move_to(path) && move_to(root_of(tree));
        return rmdir(path) == 0 && can;
}

bool containers_find_tree(enum cgroup_tree *ret_tree)
{
        for (enum cgroup_tree tree = CGROUPS_OF_V2; tree < CGROUPS_N_TREES; tree++) {
                if (containers_can_be_made(tree)) {
                        *ret_tree = tree;
                        return true;
                }
        }
        return false;
}

void container_enter(enum cgroup_tree tree, unsigned n)
{
        char path[PATH_BYTES];

        must(n < N_CONTAINERS, "a container's number");
        name_path(tree, n, path);
        must(mkdir(path, 0755) == 0 || errno == EEXIST, path);
        must(move_to(path), path);
}

void container_leave(enum cgroup_tree tree)
{
        must(move_to(root_of(tree)), root_of(tree));
}

/* Processes that were killed, and for which their parent no longer waits, are in it for a moment. */
static bool remove_soon(const char *path)
{
        for (unsigned i = 0; i < REMOVAL_MS; i++) {
                if (rmdir(path) == 0 || errno == ENOENT)
                        return true;
                if (errno != EBUSY)
                        return false;
                (void)usleep(1000);
        }
        return false;
}

void containers_remove(enum cgroup_tree tree)
{
        char path[PATH_BYTES];

        container_leave(tree);
        for (unsigned n = 0; n < N_CONTAINERS; n++) {
                name_path(tree, n, path);
                must(remove_soon(path), path);
        }
}
