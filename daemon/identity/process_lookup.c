/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/identity/process_lookup.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "daemon/identity/proc_stat.h"

/* Whether /proc shows the daemon's own pid namespace. In another one the same pid is a different process. Once it does it
 * goes on: to ask again costs as much as a fifth of what is read there. */
static bool proc_is_ours(void)
{
        static atomic_bool is_ours;
        char name[16];
        ssize_t n;

        if (is_ours)
                return true;
        n = readlink("/proc/self", name, sizeof(name) - 1);
        if (n <= 0)
                return false;
        name[n] = '\0';
        is_ours = atoi(name) == getpid();
        return is_ours;
}

int process_lookup_start(pid_t pid, uint64_t *ret_ticks)
{
        char path[32], text[TEXT_BYTES];
        int r;

        if (!proc_is_ours())
                return -EXDEV;
        (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
        r = text_read(path, text);
        return r ? r : proc_stat_start(text, ret_ticks);
}

int process_lookup_container(pid_t pid, char ret_path[static CGROUP_PATH_MAX])
{
        char path[32], text[TEXT_BYTES];
        int r;

        if (!proc_is_ours())
                return -EXDEV;
        (void)snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
        r = text_read(path, text);
        return r ? r : cgroup_find_container(text, ret_path);
}

static void read_program(pid_t pid, char program[static PROCESS_PROGRAM_MAX])
{
        char path[32], text[TEXT_BYTES];

        (void)snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
        if (text_read(path, text))
                (void)snprintf(text, sizeof(text), "?");
        text[strcspn(text, "\n")] = '\0';
        (void)snprintf(program, PROCESS_PROGRAM_MAX, "%.*s", PROCESS_PROGRAM_MAX - 1, text);
}

void process_lookup(pid_t pid, struct process_facts *ret_facts)
{
        struct process_facts facts;
        struct stat status;
        char path[32];

        memset(&facts, 0, sizeof(facts));
        (void)snprintf(path, sizeof(path), "/proc/%d", (int)pid);
        facts.is_there = stat(path, &status) == 0;
        if (facts.is_there) {
                facts.uid = status.st_uid;
                facts.container_fault = process_lookup_container(pid, facts.container);
                read_program(pid, facts.program);
        }
        memcpy(ret_facts, &facts, sizeof(facts));
}
