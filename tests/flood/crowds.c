/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/flood/crowds.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "gpumem.h"
#include "proto/frame_socket.h"
#include "tests/flood/peer.h"

#define STRANGER        65533
#define A_PROCESS       250 /* members; a process may have 256 connections */
#define N_PROCESSES_MAX 64

struct crowd {
        enum crowd_kind kind;
        unsigned n_processes;
        pid_t pids[N_PROCESSES_MAX];
        struct process {
                struct crowd_counts counts;
                volatile bool is_ready;
        } * processes; /* shared with them */
};

static volatile sig_atomic_t is_over;

static void on_end(int number)
{
        (void)number;
        is_over = 1;
}

static void must(bool is_so, const char *what)
{
        if (is_so)
                return;
        perror(what);
        abort();
}

/* -1: refused, or failed. */
static int come_in(struct crowd_counts *counts)
{
        int fd = peer_connect(), r;

        if (fd < 0) {
                counts->n_failed++;
                return -1;
        }
        r = peer_hello(fd);
        if (r == 0) {
                counts->n_in++;
                return fd;
        }
        /* One that is turned away may find the end before it finds the reason. */
        if (r == GPUMEM_E_TOO_MANY || r == GPUMEM_E_DISCONNECTED)
                counts->n_refused++;
        else
                counts->n_failed++;
        (void)close(fd);
        return -1;
}

/* Some for answers with fds: not so many that their user may have no more of these on the way. */
static void ask_in_vain(int fd, unsigned i, struct crowd_counts *counts)
{
        struct frame frame = FRAME_NULL;
        enum message_kind kind = i % 25 ? MESSAGE_RESET_PEAKS : MESSAGE_STATS;

        frame.reset_peaks.scope = PROTO_SCOPE_TENANT;
        frame.reset_peaks.pool = PROTO_ALL_POOLS;
        must(fcntl(fd, F_SETFL, O_NONBLOCK) == 0, "O_NONBLOCK");
        while (peer_send(fd, &frame, kind) == 0)
                counts->n_asked++;
}

static void ask_on(const int *fds, unsigned n, struct crowd_counts *counts)
{
        struct frame request = FRAME_NULL, reply;

        for (unsigned i = 0; !is_over; i = (i + 1) % n) {
                if (fds[i] >= 0)
                        (void)peer_call(fds[i], &request, MESSAGE_STATS, MESSAGE_STATS_REPLY,
                                        &reply);
                counts->n_asked++;
        }
}

static void wait_for_end(const int *fds, unsigned n, struct crowd_counts *counts)
{
        while (!is_over)
                (void)usleep(10000);
        for (unsigned i = 0; i < n; i++) {
                struct pollfd events = {.fd = fds[i], .events = POLLRDHUP};

                counts->n_ended += fds[i] >= 0 && poll(&events, 1, 0) > 0;
        }
}

static void be_process(enum crowd_kind kind, unsigned n, struct process *process)
{
        struct crowd_counts counts = {.n_in = 0};
        int *fds = calloc(n, sizeof(*fds));

        must(fds, "calloc");
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)signal(SIGTERM, on_end);
        if (geteuid() == 0)
                must(setgid(STRANGER) == 0 && setuid(STRANGER) == 0, "setuid");
        for (unsigned i = 0; i < n; i++) {
                fds[i] = come_in(&counts);
                if (fds[i] >= 0 && kind == CROWD_NEVER_READS)
                        ask_in_vain(fds[i], i, &counts);
        }
        process->is_ready = true;
        if (kind == CROWD_ASKS)
                ask_on(fds, n, &counts);
        else
                wait_for_end(fds, n, &counts);
        process->counts = counts;
        _exit(0);
}

struct crowd *crowd_start(enum crowd_kind kind, unsigned n_members)
{
        struct crowd *crowd = calloc(1, sizeof(*crowd));

        must(crowd, "calloc");
        crowd->kind = kind;
        crowd->processes = mmap(NULL, N_PROCESSES_MAX * sizeof(*crowd->processes),
                                PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        must(crowd->processes != MAP_FAILED, "mmap");
        while (n_members) {
                unsigned n = n_members < A_PROCESS ? n_members : A_PROCESS;
                unsigned i = crowd->n_processes++;

                must(i < N_PROCESSES_MAX, "too many members");
                crowd->pids[i] = fork();
                must(crowd->pids[i] >= 0, "fork");
                if (crowd->pids[i] == 0)
                        be_process(kind, n, &crowd->processes[i]);
                n_members -= n;
        }
        return crowd;
}

void crowd_await(struct crowd *crowd)
{
        for (unsigned i = 0; i < crowd->n_processes; i++) {
                while (!crowd->processes[i].is_ready && waitpid(crowd->pids[i], NULL, WNOHANG) == 0)
                        (void)usleep(1000);
        }
}

void crowd_end(struct crowd *crowd, struct crowd_counts *ret_counts)
{
        struct crowd_counts sum = {.n_in = 0};

        for (unsigned i = 0; i < crowd->n_processes; i++)
                (void)kill(crowd->pids[i], SIGTERM);
        for (unsigned i = 0; i < crowd->n_processes; i++) {
                const struct crowd_counts *counts = &crowd->processes[i].counts;

                (void)waitpid(crowd->pids[i], NULL, 0);
                sum.n_in += counts->n_in;
                sum.n_refused += counts->n_refused;
                sum.n_failed += counts->n_failed;
                sum.n_ended += counts->n_ended;
                sum.n_asked += counts->n_asked;
        }
        (void)munmap(crowd->processes, N_PROCESSES_MAX * sizeof(*crowd->processes));
        free(crowd);
        *ret_counts = sum;
}
