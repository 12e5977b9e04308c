/* SPDX-License-Identifier: Apache-2.0 */
/* gpumem-flood DAEMON: crowds press the daemon with that pid while another client goes on leasing. Prints
 * the result of each crowd, and the other client's times as multiples of those before. Fails on anything
 * but times: an error of the other client, or files or memory of the daemon that do not come back. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/size.h"
#include "gpumem.h"
#include "tests/flood/crowds.h"
#include "tests/flood/peer.h"

#define N_TIMES_MAX 60000
#define PAUSE_US    500
#define BACK_S      30

static unsigned n_faults;
static pid_t daemon_pid;

struct times {
        unsigned n;
        unsigned n_errors;
        unsigned n_connects;
        double us[N_TIMES_MAX];
};

static double now_us(void)
{
        return (double)clock_now_ns() / 1e3;
}

static int compare(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

static double at_percent(struct times *times, unsigned percent)
{
        if (!times->n)
                return 0;
        qsort(times->us, times->n, sizeof(*times->us), compare);
        return times->us[(size_t)(times->n - 1) * percent / 100];
}

/* A cached block, leased and given back; now and then over a new connection. */
static void go_on(int fd, double seconds, struct times *times)
{
        double end_us = now_us() + seconds * 1e6;

        *times = (struct times){.n = 0};
        while (now_us() < end_us && times->n < N_TIMES_MAX) {
                struct frame lease = FRAME_NULL, give = FRAME_NULL, reply;
                double from_us = now_us();
                int other;

                lease.lease.n_bytes = 2 * MIB;
                if (peer_call(fd, &lease, MESSAGE_LEASE, MESSAGE_LEASED, &reply)) {
                        times->n_errors++;
                        continue;
                }
                times->us[times->n++] = now_us() - from_us;
                give.return_lease.lease = reply.leased.lease;
                give.return_lease.flags = PROTO_RETURN_UNMAPPED;
                times->n_errors += peer_send(fd, &give, MESSAGE_RETURN) != 0;
                if (times->n % 100 == 0) {
                        other = peer_connect();
                        times->n_errors += other < 0 || peer_hello(other) != 0;
                        times->n_connects++;
                        (void)close(other);
                }
                (void)usleep(PAUSE_US);
        }
}

static unsigned count_fds(void)
{
        char path[64];
        unsigned n = 0;
        DIR *folder;

        (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)daemon_pid);
        folder = opendir(path);
        while (folder && readdir(folder))
                n++;
        if (folder)
                (void)closedir(folder);
        return n;
}

static unsigned long resident_kib(void)
{
        unsigned long n_pages = 0;
        char path[64];
        FILE *file;

        (void)snprintf(path, sizeof(path), "/proc/%d/statm", (int)daemon_pid);
        file = fopen(path, "re");
        if (file && fscanf(file, "%*u %lu", &n_pages) != 1)
                n_pages = 0;
        if (file)
                (void)fclose(file);
        return n_pages * (unsigned long)sysconf(_SC_PAGESIZE) / 1024;
}

static void say_times(const char *when, struct times *times, struct times *before)
{
        double p95 = at_percent(times, 95), p99 = at_percent(times, 99);

        printf("  %-14s %6u leases, %4u connections, %u errors; p95 %.0f us (%.2fx), p99 %.0f us "
               "(%.2fx)\n",
               when, times->n, times->n_connects, times->n_errors, p95,
               p95 / at_percent(before, 95), p99, p99 / at_percent(before, 99));
        n_faults += times->n_errors;
}

static void check_files(unsigned n_fds)
{
        double end_us = now_us() + BACK_S * 1e6;

        while (count_fds() != n_fds && now_us() < end_us)
                (void)usleep(1000);
        if (count_fds() == n_fds)
                return;
        printf("  FAULT: the daemon has %u files open, not %u\n", count_fds(), n_fds);
        n_faults++;
}

static void press(const char *name, enum crowd_kind kind, unsigned n_members, double seconds,
                  int fd)
{
        static struct times before, during, after;
        unsigned long kib, most_kib;
        struct crowd_counts counts;
        struct crowd *crowd;
        unsigned n_fds;
        double end_us;

        printf("%s: %u\n", name, n_members);
        go_on(fd, 3, &before);
        n_fds = count_fds();
        kib = resident_kib();
        say_times("before", &before, &before);
        crowd = crowd_start(kind, n_members);
        go_on(fd, seconds, &during);
        crowd_await(crowd);
        say_times("pressed", &during, &before);
        most_kib = resident_kib();
        crowd_end(crowd, &counts);
        end_us = now_us();
        check_files(n_fds);
        printf("  %u came in, %u were refused, %u failed; %u were sent away; %u requests\n",
               counts.n_in, counts.n_refused, counts.n_failed, counts.n_ended, counts.n_asked);
        printf("  the daemon: files back after %.0f ms; %lu KiB, %lu pressed, %lu now\n",
               (now_us() - end_us) / 1e3, kib, most_kib, resident_kib());
        go_on(fd, 3, &after);
        say_times("after", &after, &before);
        n_faults += counts.n_failed;
        (void)fflush(stdout);
}

int main(int argc, char **argv)
{
        int fd;

        (void)signal(SIGPIPE, SIG_IGN);
        fd = peer_connect();
        if (argc != 2 || fd < 0 || peer_hello(fd)) {
                (void)fprintf(stderr, "gpumem-flood DAEMON: GPUMEM_SOCKET names its socket\n");
                return 2;
        }
        daemon_pid = (pid_t)atoi(argv[1]);
        (void)setvbuf(stdout, NULL, _IOLBF, 0);
        press("clients that never read", CROWD_NEVER_READS, 500, 25, fd);
        press("connections", CROWD_CONNECTS, 10000, 7, fd);
        press("clients that ask without a pause", CROWD_ASKS, 16, 7, fd);
        printf("%u faults\n", n_faults);
        return n_faults ? 1 : 0;
}
