/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"

#include <signal.h>
#include <sys/prctl.h>
#include <time.h>

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

void thread_name_self(const char *name)
{
        (void)prctl(PR_SET_NAME, name);
}

void condition_init_monotonic(pthread_cond_t *condition)
{
        pthread_condattr_t monotonic;

        (void)pthread_condattr_init(&monotonic);
        (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        (void)pthread_cond_init(condition, &monotonic);
        (void)pthread_condattr_destroy(&monotonic);
}
