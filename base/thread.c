/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fdset.h"

/* The shortest that Linux grants. */
#define SLICE_NS 100000

#define NICE_SOON      (-10)
#define NICE_SOON_TEXT "-10"

/* The kernel's struct sched_attr in its first version: headers of Debian 12 define it beside a sched_param of their own. */
struct scheduling {
        uint32_t n_bytes;
        uint32_t policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t slice_ns, deadline_ns, period_ns;
};

int thread_start(void *(*run)(void *argument), void *argument, pthread_t *ret_thread)
{
        sigset_t all, before;
        int r;

        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        r = pthread_create(ret_thread, NULL, run, argument);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        return -r;
}

bool thread_join_within(pthread_t thread, uint64_t n_ns)
{
        struct timespec until;

        (void)clock_gettime(CLOCK_REALTIME, &until);
        n_ns += (uint64_t)until.tv_nsec;
        until.tv_sec += (time_t)(n_ns / NS_PER_S);
        until.tv_nsec = (long)(n_ns % NS_PER_S);
        return pthread_timedjoin_np(thread, NULL, &until) == 0;
}

void thread_name_self(const char *name)
{
        (void)prctl(PR_SET_NAME, name);
}

/* Other policies have no slice. */
static void shorten_slice(void)
{
        struct scheduling own;

        if (syscall(SYS_sched_getattr, 0, &own, sizeof(own), 0) || own.policy != SCHED_OTHER)
                return;
        own.slice_ns = SLICE_NS;
        (void)syscall(SYS_sched_setattr, 0, &own, 0);
}

/* For Linux, a nice value is a thread's. An administrator may have chosen a better one. */
void thread_prefer_soon(void)
{
        shorten_slice();
        if (getpriority(PRIO_PROCESS, 0) > NICE_SOON)
                (void)setpriority(PRIO_PROCESS, 0, NICE_SOON);
}

void thread_be_patient(void)
{
        if (getpriority(PRIO_PROCESS, 0) < 0)
                (void)setpriority(PRIO_PROCESS, 0, 0);
}

void session_prefer_soon(void)
{
        CLEANUP(closep)
        int fd = -1;

        if (getsid(0) != getpid())
                return;
        fd = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
        if (fd >= 0)
                (void)!write(fd, NICE_SOON_TEXT, strlen(NICE_SOON_TEXT));
}

void condition_init_monotonic(pthread_cond_t *condition)
{
        pthread_condattr_t monotonic;

        (void)pthread_condattr_init(&monotonic);
        (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        (void)pthread_cond_init(condition, &monotonic);
        (void)pthread_condattr_destroy(&monotonic);
}
