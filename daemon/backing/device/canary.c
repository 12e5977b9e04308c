/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/backing/device/canary.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fdset.h"
#include "base/log.h"
#include "driver/canary.h"

#define SELF    "/proc/self/exe"
#define KILL_MS 200
#define LOOK_MS 50

enum canary_status { STATUS_CLEAN = 0, STATUS_DIRTY = 10, STATUS_UNABLE = 11 };

static int status_of(int r, enum canary_bytes found)
{
        if (r)
                return STATUS_UNABLE;
        return found == CANARY_ZERO ? STATUS_CLEAN : STATUS_DIRTY;
}

static int load(const char *cuda_library, int ordinal, struct cuda *cuda, uint64_t *ret_bytes)
{
        char reason[CUDA_REASON_MAX];
        int r = cuda_load(cuda_library, cuda, reason);

        return r ? r : canary_size(cuda, ordinal, ret_bytes);
}

/* Fills memory in one context and checks it in the next of the same process. A driver might recognize its
 * own process's pages, so a second process checks, too. */
static int fill_and_look(const char *cuda_library, int ordinal)
{
        enum canary_bytes found = CANARY_OTHERS;
        struct cuda cuda;
        uint64_t n_bytes;
        int r = load(cuda_library, ordinal, &cuda, &n_bytes);

        if (!r)
                r = canary_fill(&cuda, ordinal, n_bytes);
        if (!r)
                r = canary_look(&cuda, ordinal, n_bytes, &found);
        return status_of(r, found);
}

static int look(const char *cuda_library, int ordinal)
{
        enum canary_bytes found = CANARY_OTHERS;
        struct cuda cuda;
        uint64_t n_bytes;
        int r = load(cuda_library, ordinal, &cuda, &n_bytes);

        if (!r)
                r = canary_look(&cuda, ordinal, n_bytes, &found);
        return status_of(r, found);
}

int canary_main(const char *cuda_library, int ordinal)
{
        pid_t parent = getpid(), pid = fork();
        int status;

        if (pid < 0)
                return STATUS_UNABLE;
        if (pid == 0) {
                /* The kernel kills this process if its parent is killed for being late. */
                if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
                        _exit(STATUS_UNABLE);
                _exit(fill_and_look(cuda_library, ordinal));
        }
        if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
                return STATUS_UNABLE;
        return WEXITSTATUS(status) == STATUS_CLEAN ? look(cuda_library, ordinal)
                                                   : WEXITSTATUS(status);
}

struct canary {
        pid_t pid; /* 0: none */
        int pidfd;
};

static void start(const char *cuda_library, int ordinal, struct canary *canary)
{
        char number[16];
        char *const arguments[] = {(char *)"gpumemd",        (char *)"--canary-of", number,
                                   (char *)"--cuda-library", (char *)cuda_library,  NULL};

        (void)snprintf(number, sizeof(number), "%d", ordinal);
        *canary = (struct canary){.pidfd = -1};
        if (posix_spawn(&canary->pid, SELF, NULL, NULL, arguments, environ)) {
                canary->pid = 0;
                return;
        }
        canary->pidfd = pidfd_open(canary->pid, 0);
}

static int ms_until(uint64_t deadline_ms)
{
        uint64_t now_ms = clock_now_ms();

        return deadline_ms > now_ms ? (int)(deadline_ms - now_ms) : 0;
}

static bool has_ended(const struct canary *canary, int wait_ms)
{
        struct pollfd end = {.fd = canary->pidfd, .events = POLLIN};

        return poll(&end, 1, wait_ms) == 1;
}

/* Kills a process that is late. A process that hangs in the driver may survive that, so the wait for its
 * end is limited. */
static enum canary_outcome finish(struct canary *canary, uint64_t until_ms)
{
        int status;

        if (!canary->pid)
                return CANARY_UNABLE;
        if (!has_ended(canary, ms_until(until_ms))) {
                (void)kill(canary->pid, SIGKILL);
                (void)has_ended(canary, KILL_MS);
        }
        closep(&canary->pidfd);
        if (waitpid(canary->pid, &status, WNOHANG) != canary->pid || !WIFEXITED(status))
                return CANARY_UNABLE;
        switch (WEXITSTATUS(status)) {
        case STATUS_CLEAN:
                return CANARY_CLEAN;
        case STATUS_DIRTY:
                return CANARY_DIRTY;
        default:
                return CANARY_UNABLE;
        }
}

static void say(int ordinal, enum canary_outcome outcome)
{
        if (outcome == CANARY_DIRTY)
                log_error("device %d: the driver does not clear memory: new memory holds its last "
                          "owner's bytes; only one tenant is served there",
                          ordinal);
        else if (outcome == CANARY_UNABLE)
                log_warning("device %d: cannot check whether the driver clears memory: no context, "
                            "no memory, or no answer in %d s; assuming that it does",
                            ordinal, CANARY_LIMIT_MS / 1000);
        else
                log_debug("device %d: the driver clears memory", ordinal);
}

enum canary_outcome canary_try(const char *cuda_library, int ordinal,
                               bool (*is_wanted)(void *argument), void *argument)
{
        uint64_t until_ms = clock_now_ms() + CANARY_LIMIT_MS;
        enum canary_outcome outcome;
        struct canary canary;

        start(cuda_library, ordinal, &canary);
        while (canary.pid && clock_now_ms() < until_ms && !has_ended(&canary, LOOK_MS)) {
                if (!is_wanted(argument))
                        until_ms = 0;
        }
        outcome = finish(&canary, 0);
        if (is_wanted(argument))
                say(ordinal, outcome);
        return outcome;
}

void canary_run(const char *cuda_library, int n_devices,
                enum canary_outcome ret_outcomes[static CANARY_DEVICES_MAX])
{
        struct canary canaries[CANARY_DEVICES_MAX];
        uint64_t until_ms = clock_now_ms() + CANARY_LIMIT_MS;

        if (n_devices > CANARY_DEVICES_MAX)
                n_devices = CANARY_DEVICES_MAX;
        for (int i = 0; i < n_devices; i++)
                start(cuda_library, i, &canaries[i]);
        for (int i = 0; i < n_devices; i++) {
                ret_outcomes[i] = finish(&canaries[i], until_ms);
                say(i, ret_outcomes[i]);
        }
}
