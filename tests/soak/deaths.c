/* SPDX-License-Identifier: Apache-2.0 */
/* gpumem-kills KILLS SEED FOLDER: kills workers at random moments, some of them before they have connected, and
 * starts others in their places, until so many were killed at work. The first worker lives all the time and
 * ends in order: its memory was often another worker's a moment ago, whose GPU work continued after its death.
 * FOLDER is for the workers' files. One thread. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/random.h"
#include "tests/soak/worker.h"

#define N_WORKERS     6
#define PATH_MAX_HERE 256

/* Measured from the worker's first line of counts, or from its start. */
#define LIFE_MS_MAX  25
#define YOUNG_MS_MAX 10
#define ONE_IN_YOUNG 6

#define TICK_NS     500000
#define ROW_SECONDS 10

struct worker {
        pid_t pid;
        bool is_young;   /* to be killed whether it is at work or not */
        uint64_t due_ms; /* 0: not at work yet */
        char counts[PATH_MAX_HERE];
};

struct kills {
        struct worker workers[N_WORKERS];
        struct test_random random;
        uint64_t seed;
        uint64_t n_started, n_at_work, n_young;
};

static _Noreturn void fail(const char *what)
{
        (void)fprintf(stderr, "%s: %s\n", what, strerror(errno));
        (void)kill(0, SIGKILL);
        _exit(EXIT_FAILURE);
}

static void start(struct kills *kills, unsigned i)
{
        struct worker *worker = &kills->workers[i];
        uint64_t life_ms = 1 + test_random_below(&kills->random, YOUNG_MS_MAX);

        worker->is_young = i > 0 && test_random_below(&kills->random, ONE_IN_YOUNG) == 0;
        worker->due_ms = worker->is_young ? clock_now_ms() + life_ms : 0;
        (void)unlink(worker->counts);
        kills->n_started++;
        worker->pid = fork();
        if (worker->pid < 0)
                fail("fork");
        if (worker->pid == 0) {
                worker_run((unsigned)kills->n_started, kills->seed, worker->counts);
                _exit(EXIT_SUCCESS);
        }
}

static bool is_at_work(const struct worker *worker)
{
        struct stat counts;

        return stat(worker->counts, &counts) == 0 && counts.st_size > 0;
}

/* Processes end by signals only. */
static void reap(const struct worker *worker, int signal_number)
{
        int status;

        if (waitpid(worker->pid, &status, 0) != worker->pid)
                fail("waitpid");
        if (signal_number ? !WIFSIGNALED(status) || WTERMSIG(status) != signal_number
                          : !WIFEXITED(status) || WEXITSTATUS(status)) {
                errno = ECHILD;
                fail("a worker ended of itself");
        }
}

static void kill_worker(struct kills *kills, struct worker *worker)
{
        if (is_at_work(worker))
                kills->n_at_work++;
        else
                kills->n_young++;
        if (kill(worker->pid, SIGKILL))
                fail("kill");
        reap(worker, SIGKILL);
}

static void look_at(struct kills *kills, unsigned i)
{
        struct worker *worker = &kills->workers[i];
        uint64_t now = clock_now_ms();

        if (!worker->due_ms) {
                if (is_at_work(worker))
                        worker->due_ms = now + test_random_below(&kills->random, LIFE_MS_MAX);
                return;
        }
        if (now < worker->due_ms)
                return;
        kill_worker(kills, worker);
        start(kills, i);
}

static void print_row(const struct kills *kills, uint64_t began_ms)
{
        (void)printf("# %6" PRIu64 " s %8" PRIu64 " killed at work, %7" PRIu64 " before\n",
                     (clock_now_ms() - began_ms) / 1000, kills->n_at_work, kills->n_young);
        (void)fflush(stdout);
}

static void run(struct kills *kills, uint64_t n_kills)
{
        uint64_t began_ms = clock_now_ms(), row_ms = began_ms + ROW_SECONDS * 1000;

        for (unsigned i = 0; i < N_WORKERS; i++)
                start(kills, i);
        while (kills->n_at_work < n_kills) {
                for (unsigned i = 1; i < N_WORKERS; i++)
                        look_at(kills, i);
                if (waitpid(kills->workers[0].pid, NULL, WNOHANG) != 0) {
                        errno = ECHILD;
                        fail("the first worker ended");
                }
                if (clock_now_ms() >= row_ms) {
                        print_row(kills, began_ms);
                        row_ms += ROW_SECONDS * 1000;
                }
                (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = TICK_NS},
                                      NULL);
        }
        for (unsigned i = 1; i < N_WORKERS; i++)
                kill_worker(kills, &kills->workers[i]);
        if (kill(kills->workers[0].pid, SIGTERM))
                fail("kill");
        reap(&kills->workers[0], 0);
        print_row(kills, began_ms);
}

int main(int argc, char **argv)
{
        struct kills kills = {.n_started = 0};

        if (argc != 4)
                return EXIT_FAILURE;
        kills.seed = strtoull(argv[2], NULL, 10);
        kills.random.state = kills.seed;
        for (unsigned i = 0; i < N_WORKERS; i++)
                (void)snprintf(kills.workers[i].counts, sizeof(kills.workers[i].counts),
                               "%s/counts.%u", argv[3], i);
        run(&kills, strtoull(argv[1], NULL, 10));
        return EXIT_SUCCESS;
}
