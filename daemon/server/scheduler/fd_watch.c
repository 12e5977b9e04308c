/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/scheduler/fd_watch.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fdset.h"

/* Told in one look. What is not told then is told in the next: the kernel tells those last that it told before. */
#define EVENTS_A_LOOK 128

/* What one event costs at most: its payer does not pay for the times in which the kernel runs others. */
#define EVENT_MAX_NS UINT64_C(2000)

/* What libuv's set has to tell is told until libuv has looked. */
int fd_watches_open(struct fd_watches *set, uv_loop_t *loop)
{
        struct epoll_event event = {.events = EPOLLIN};

        set->is_loop_ready = true;
        set->fd = epoll_create1(EPOLL_CLOEXEC);
        if (set->fd < 0 || epoll_ctl(set->fd, EPOLL_CTL_ADD, uv_backend_fd(loop), &event))
                return err_errno();
        return 0;
}

void fd_watches_close(struct fd_watches *set)
{
        closep(&set->fd);
}

static void tell(struct fd_watches *set, const struct epoll_event *event)
{
        struct fd_watch *watch = event->data.ptr;

        if (watch)
                watch->report(watch, event->events);
        else
                set->is_loop_ready = true;
}

static void charge(const struct epoll_event *events, int n, uint64_t n_ns)
{
        uint64_t each_ns = n_ns / (unsigned)n;

        if (each_ns > EVENT_MAX_NS)
                each_ns = EVENT_MAX_NS;
        for (int i = 0; i < n; i++) {
                const struct fd_watch *watch = events[i].data.ptr;

                if (watch)
                        payer_charge(watch->payer, each_ns);
        }
}

uint64_t fd_watches_look(struct fd_watches *set, int timeout_ms)
{
        struct epoll_event events[EVENTS_A_LOOK];
        uint64_t since_ns = clock_now_ns(), n_waited_ns = 0;
        int n = epoll_wait(set->fd, events, EVENTS_A_LOOK, timeout_ms);

        if (timeout_ms) {
                n_waited_ns = clock_now_ns() - since_ns;
                since_ns += n_waited_ns;
        }
        for (int i = 0; i < n; i++)
                tell(set, &events[i]);
        if (n > 0)
                charge(events, n, clock_now_ns() - since_ns);
        return n_waited_ns;
}

static int tell_kernel(struct fd_watch *watch, int operation)
{
        struct epoll_event event = {.events = watch->events | EPOLLET, .data.ptr = watch};

        return epoll_ctl(watch->set->fd, operation, watch->fd, &event) ? err_errno() : 0;
}

int fd_watch_begin(struct fd_watch *watch, struct fd_watches *set, struct payer *payer, int fd,
                   uint32_t events)
{
        int r;

        watch->set = set;
        watch->payer = payer;
        watch->fd = fd;
        watch->events = events;
        r = tell_kernel(watch, EPOLL_CTL_ADD);
        if (r)
                watch->set = NULL;
        else
                payer_ref(payer);
        return r;
}

void fd_watch_change(struct fd_watch *watch, uint32_t events)
{
        if (!watch->set || watch->events == events)
                return;
        watch->events = events;
        (void)tell_kernel(watch, EPOLL_CTL_MOD);
}

void fd_watch_end(struct fd_watch *watch)
{
        if (!watch->set)
                return;
        (void)epoll_ctl(watch->set->fd, EPOLL_CTL_DEL, watch->fd, NULL);
        payer_unref(watch->payer);
        watch->set = NULL;
}
