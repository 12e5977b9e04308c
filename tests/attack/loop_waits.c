/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/attack/loop_waits.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define LOOK_US 500

static struct {
        int status;
        pthread_t thread;
        atomic_bool is_over;
        uint64_t longest_ns;
} waits;

/* Returns whether it sleeps without being interrupted by signals. The number of its sleeps tells one wait from the next. */
static bool waits_now(uint64_t *ret_n_sleeps)
{
        static const char sleeps[] = "\nvoluntary_ctxt_switches:";
        char text[4096];
        ssize_t n = pread(waits.status, text, sizeof(text) - 1, 0);
        const char *at;

        if (n <= 0)
                return false;
        text[n] = '\0';
        at = strstr(text, sleeps);
        if (!at || !strstr(text, "\nState:\tD"))
                return false;
        *ret_n_sleeps = strtoull(at + strlen(sleeps), NULL, 10);
        return true;
}

static void *look(void *unused)
{
        uint64_t since_ns = 0, n_sleeps = 0, n_before = UINT64_MAX;

        (void)unused;
        while (!atomic_load(&waits.is_over)) {
                uint64_t now_ns = clock_now_ns();

                if (!waits_now(&n_sleeps)) {
                        n_before = UINT64_MAX;
                } else if (n_sleeps != n_before) {
                        n_before = n_sleeps;
                        since_ns = now_ns;
                } else if (now_ns - since_ns > waits.longest_ns) {
                        waits.longest_ns = now_ns - since_ns;
                }
                (void)usleep(LOOK_US);
        }
        return NULL;
}

void loop_waits_begin(pid_t daemon)
{
        char path[64];

        (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/status", (int)daemon, (int)daemon);
        waits.status = open(path, O_RDONLY | O_CLOEXEC);
        if (waits.status < 0)
                abort();
        waits.longest_ns = 0;
        atomic_store(&waits.is_over, false);
        if (pthread_create(&waits.thread, NULL, look, NULL))
                abort();
}

uint64_t loop_waits_end(void)
{
        atomic_store(&waits.is_over, true);
        (void)pthread_join(waits.thread, NULL);
        (void)close(waits.status);
        return waits.longest_ns;
}
