/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/backing/worker/fd_closer.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/log.h"
#include "daemon/backing/worker/abandoned_threads.h"
#include "daemon/backing/worker/errand_thread.h"

/* Sockets that wait are open still. */
#define BACKLOG_MAX 64

/* This signal interrupts close() of a socket that lingers. It repeats, for the next socket. */
#define TICK    SIGRTMIN
#define TICK_NS 100000

struct closing {
        struct errand errand;
        int fd;
        bool is_socket;
};

struct fd_closer {
        struct errand_thread *thread;
        timer_t timer;
        bool has_timer;
        atomic_uint n_sockets; /* that wait */
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

static void begin(void *argument)
{
        struct fd_closer *closer = argument;

        closer->has_timer = let_ticks_in(&closer->timer) == 0;
        if (!closer->has_timer)
                log_warning("cannot make a timer: a peer that sends a lingering socket delays the "
                            "closing of others");
}

static void set_ticks(const struct fd_closer *closer, long n_ns)
{
        const struct itimerspec ticks = {{0, n_ns}, {0, n_ns}};

        if (closer->has_timer)
                (void)timer_settime(closer->timer, 0, &ticks, NULL);
}

static void carry_out(struct errand *errand, void *argument)
{
        struct closing *closing = CONTAINER_OF(errand, struct closing, errand);
        struct fd_closer *closer = argument;

        if (closing->is_socket)
                atomic_fetch_sub(&closer->n_sockets, 1);
        set_ticks(closer, TICK_NS);
        closep(&closing->fd);
        set_ticks(closer, 0);
        free(closing);
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
        r = errand_thread_new(
                &(struct errand_rules){
                        .name = "gpumemd-close",
                        .why_late = "closing fds that a process sent takes too long; they are "
                                    "closed when the daemon ends",
                        .begin = begin,
                        .argument = closer},
                &closer->thread);
        if (!r)
                *ret_closer = steal_ptr(closer);
        return r;
}

struct fd_closer *fd_closer_free(struct fd_closer *closer)
{
        if (!closer)
                return NULL;
        /* One that was left behind may use it still. */
        if (abandoned_threads_any())
                return NULL;
        closer->thread = errand_thread_free(closer->thread);
        /* It may be this one. */
        if (abandoned_threads_any())
                return NULL;
        if (closer->has_timer)
                (void)timer_delete(closer->timer);
        free(closer);
        return NULL;
}

static void put(struct fd_closer *closer, int take_fd, bool is_socket)
{
        struct closing *closing = closer ? malloc(sizeof(*closing)) : NULL;

        if (!closing) {
                closep(&take_fd);
                return;
        }
        *closing = (struct closing){{.run = carry_out}, take_fd, is_socket};
        if (is_socket)
                atomic_fetch_add(&closer->n_sockets, 1);
        errand_thread_put(closer->thread, &closing->errand);
}

void fd_closer_take_socket(struct fd_closer *closer, int take_fd)
{
        put(closer, take_fd, true);
}

void fd_closer_take_file(struct fd_closer *closer, int take_fd)
{
        put(closer, take_fd, false);
}

void fd_closer_take_errand(struct fd_closer *closer, struct errand *take_errand)
{
        errand_thread_put(closer->thread, take_errand);
}

bool fd_closer_keeps_up(struct fd_closer *closer)
{
        return atomic_load(&closer->n_sockets) < BACKLOG_MAX;
}
