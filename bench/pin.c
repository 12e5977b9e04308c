/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/pin.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"

static int set_threads(pid_t pid, const cpu_set_t *cpus)
{
        const struct dirent *entry;
        char path[64];
        DIR *tasks;
        int r = 0;

        (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
        tasks = opendir(path);
        if (!tasks)
                return err_errno();
        while (!r && (entry = readdir(tasks))) {
                pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);

                /* A thread that has ended meanwhile is no error. */
                if (thread && sched_setaffinity(thread, sizeof(*cpus), cpus) < 0 && errno != ESRCH)
                        r = err_errno();
        }
        (void)closedir(tasks);
        return r;
}

int pin_to_cpu(pid_t pid, int cpu)
{
        cpu_set_t cpus;

        CPU_ZERO(&cpus);
        CPU_SET(cpu, &cpus);
        return set_threads(pid, &cpus);
}

int pin_to_none(pid_t pid)
{
        cpu_set_t cpus;

        CPU_ZERO(&cpus);
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
                CPU_SET(cpu, &cpus);
        return set_threads(pid, &cpus);
}

int pin_choose(int *ret_cpu)
{
        int cpu = sched_getcpu();

        if (cpu < 0)
                return err_errno();
        *ret_cpu = cpu;
        return 0;
}
