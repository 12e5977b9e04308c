/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/live/support/slow_socket.h"

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define N_WAITS     60000
#define N_EACH_MOST 20000

static unsigned n_each(void)
{
        struct rlimit files;

        ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
        files.rlim_cur = files.rlim_max;
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
        return files.rlim_cur < N_EACH_MOST ? (unsigned)files.rlim_cur : N_EACH_MOST;
}

/* Of each thread, as long as the process. */
struct waits {
        struct waits *next;
        unsigned n;
        struct pollfd fds[];
};

static struct waits *all;

static void *wait_often(void *argument)
{
        struct waits *waits = argument;

        (void)poll(waits->fds, waits->n, -1);
        return NULL;
}

void make_slow(int fd)
{
        for (unsigned n = 0; n < N_WAITS; n += n_each()) {
                struct waits *waits = malloc(sizeof(*waits) + n_each() * sizeof(waits->fds[0]));
                pthread_t thread;

                ck_assert_ptr_nonnull(waits);
                waits->next = all;
                waits->n = n_each();
                all = waits;
                for (unsigned i = 0; i < waits->n; i++)
                        waits->fds[i] = (struct pollfd){.fd = fd, .events = POLLPRI};
                ck_assert_int_eq(pthread_create(&thread, NULL, wait_often, waits), 0);
                ck_assert_int_eq(pthread_detach(thread), 0);
        }
}

static bool is_lane(const char *task)
{
        char name[32] = "";
        FILE *file = fopen(task, "re");

        if (!file)
                return false;
        (void)!fgets(name, sizeof(name), file);
        (void)fclose(file);
        return strcmp(name, "gpumemd-lane\n") == 0;
}

unsigned daemon_count_lanes(const struct daemon *daemon)
{
        char path[64], task[400];
        const struct dirent *entry;
        unsigned n = 0;
        DIR *tasks;

        (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)daemon->pid);
        tasks = opendir(path);
        ck_assert_ptr_nonnull(tasks);
        while ((entry = readdir(tasks))) {
                (void)snprintf(task, sizeof(task), "%s/%s/comm", path, entry->d_name);
                n += is_lane(task);
        }
        (void)closedir(tasks);
        return n;
}
