/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/backing/worker/fd_closer.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fdset.h"
#include "base/log.h"
#include "base/thread.h"
#include "daemon/backing/worker/abandoned_threads.h"

#define PATIENCE_MS 1000

/* Files that wait are open still. */
#define BACKLOG_MAX 64

/* This signal interrupts close() of a socket that lingers. It repeats, for the next socket. */
#define TICK    SIGRTMIN
#define TICK_NS 100000

struct closing {
        TAILQ_ENTRY(closing) link;
        int fd;
};

struct fd_closer {
        pthread_t thread;
        pthread_mutex_t lock; /* guards the fields below */
        pthread_cond_t came;
        pthread_cond_t went; /* the thread has ended */
        TAILQ_HEAD(, closing) closings;
        unsigned n; /* closings */
        bool ending, has_ended;
};

static void on_tick(int number)
{
        (void)number;
}

static int let_ticks_in(timer_t *ret_timer)
{
        struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = TICK};
        sigset_t tick;

        event._sigev_un._tid = gettid();
        (void)sigemptyset(&tick);
        (void)sigaddset(&tick, TICK);
        (void)pthread_sigmask(SIG_UNBLOCK, &tick, NULL);
        return timer_create(CLOCK_MONOTONIC, &event, ret_timer) < 0 ? err_errno() : 0;
}

static void set_ticks(timer_t timer, long n_ns)
{
        const struct itimerspec ticks = {{0, n_ns}, {0, n_ns}};

        (void)timer_settime(timer, 0, &ticks, NULL);
}

static struct closing *next(struct fd_closer *closer)
{
        struct closing *closing;

        while (TAILQ_EMPTY(&closer->closings) && !closer->ending)
                pthread_cond_wait(&closer->came, &closer->lock);
        closing = TAILQ_FIRST(&closer->closings);
        if (closing) {
                TAILQ_REMOVE(&closer->closings, closing, link);
                closer->n--;
        }
        return closing;
}

static void *run(void *argument)
{
        struct fd_closer *closer = argument;
        struct closing *closing;
        timer_t timer;
        int r = let_ticks_in(&timer);

        thread_name_self("gpumemd-close");
        if (r)
                log_warning("cannot make a timer: a peer that sends a lingering socket delays the "
                            "closing of others");
        pthread_mutex_lock(&closer->lock);
        while ((closing = next(closer))) {
                pthread_mutex_unlock(&closer->lock);
                if (!r)
                        set_ticks(timer, TICK_NS);
                closep(&closing->fd);
                if (!r)
                        set_ticks(timer, 0);
                free(closing);
                pthread_mutex_lock(&closer->lock);
        }
        closer->has_ended = true;
        pthread_cond_broadcast(&closer->went);
        pthread_mutex_unlock(&closer->lock);
        if (!r)
                (void)timer_delete(timer);
        return NULL;
}

int fd_closer_new(struct fd_closer **ret_closer)
{
        const struct sigaction tick = {.sa_handler = on_tick};
        CLEANUP(freep)
        struct fd_closer *closer = NULL;
        int r;

        if (sigaction(TICK, &tick, NULL) < 0)
                return err_errno();
        closer = calloc(1, sizeof(*closer));
        if (!closer)
                return -ENOMEM;
        TAILQ_INIT(&closer->closings);
        pthread_mutex_init(&closer->lock, NULL);
        pthread_cond_init(&closer->came, NULL);
        condition_init_monotonic(&closer->went);
        r = thread_start(run, closer, &closer->thread);
        if (!r)
                *ret_closer = steal_ptr(closer);
        return r;
}

static bool await_end(struct fd_closer *closer)
{
        struct timespec until = clock_after_ms(PATIENCE_MS);
        bool has_ended;
        int r = 0;

        pthread_mutex_lock(&closer->lock);
        closer->ending = true;
        pthread_cond_signal(&closer->came);
        while (!closer->has_ended && !r)
                r = pthread_cond_timedwait(&closer->went, &closer->lock, &until);
        has_ended = closer->has_ended;
        pthread_mutex_unlock(&closer->lock);
        return has_ended;
}

struct fd_closer *fd_closer_free(struct fd_closer *closer)
{
        if (!closer)
                return NULL;
        if (!await_end(closer)) {
                abandoned_threads_add(closer->thread,
                                      "closing fds that a process sent takes too long; they are "
                                      "closed when the daemon ends");
                return NULL;
        }
        pthread_join(closer->thread, NULL);
        pthread_cond_destroy(&closer->went);
        pthread_cond_destroy(&closer->came);
        pthread_mutex_destroy(&closer->lock);
        free(closer);
        return NULL;
}

void fd_closer_take(struct fd_closer *closer, int take_fd)
{
        struct closing *closing = malloc(sizeof(*closing));

        if (!closing) {
                closep(&take_fd);
                return;
        }
        closing->fd = take_fd;
        pthread_mutex_lock(&closer->lock);
        TAILQ_INSERT_TAIL(&closer->closings, closing, link);
        closer->n++;
        pthread_cond_signal(&closer->came);
        pthread_mutex_unlock(&closer->lock);
}

bool fd_closer_keeps_up(struct fd_closer *closer)
{
        bool keeps_up;

        pthread_mutex_lock(&closer->lock);
        keeps_up = closer->n < BACKLOG_MAX;
        pthread_mutex_unlock(&closer->lock);
        return keeps_up;
}
