/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/attack/cpus.h"

#include <dirent.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/attack/victim.h"

/* With fewer the attackers would not be what they are. */
#define CPUS_ENOUGH 8

static cpu_set_t of_victims[VICTIM_N_QUESTIONS];
static bool have_own;

static void move_threads(pid_t daemon, const cpu_set_t *cpus)
{
        char path[64];
        struct dirent *entry;
        DIR *threads;

        (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)daemon);
        threads = opendir(path);
        while (threads && (entry = readdir(threads))) {
                if (entry->d_name[0] != '.')
                        (void)sched_setaffinity(atoi(entry->d_name), sizeof(*cpus), cpus);
        }
        if (threads)
                (void)closedir(threads);
}

void cpus_leave_to_victims(pid_t daemon)
{
        unsigned n = 0;
        cpu_set_t cpus;

        if (sched_getaffinity(0, sizeof(cpus), &cpus) || CPU_COUNT(&cpus) < CPUS_ENOUGH)
                return;
        for (int cpu = CPU_SETSIZE - 1; n < VICTIM_N_QUESTIONS; cpu--) {
                if (!CPU_ISSET(cpu, &cpus))
                        continue;
                CPU_CLR(cpu, &cpus);
                CPU_ZERO(&of_victims[n]);
                CPU_SET(cpu, &of_victims[n++]);
        }
        have_own = sched_setaffinity(0, sizeof(cpus), &cpus) == 0;
        move_threads(daemon, &cpus);
}

void cpus_take_own(unsigned victim)
{
        if (have_own)
                (void)sched_setaffinity(0, sizeof(of_victims[victim]), &of_victims[victim]);
}
