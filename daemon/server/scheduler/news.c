/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/scheduler/news.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"

/* Events taken in one step. */
#define EVENTS_A_STEP 32

/* The kernel tells the next events in the next step: those that it told come last. */
static void look(struct task *task)
{
        struct news *news = CONTAINER_OF(task, struct news, source.task);
        struct epoll_event events[EVENTS_A_STEP];
        int n = epoll_wait(news->fd, events, EVENTS_A_STEP, 0);

        for (int i = 0; i < n; i++) {
                struct fd_watch *watch = events[i].data.ptr;

                watch->report(watch, events[i].events);
        }
        if (n == EVENTS_A_STEP)
                payer_put(news->source.payer, task);
}

static int news_new(struct scheduler *scheduler, struct payer *payer, struct news **owner)
{
        struct news *news = calloc(1, sizeof(*news));
        int r;

        if (!news)
                return -ENOMEM;
        *news = (struct news){.scheduler = scheduler, .source = {.payer = payer}, .owner = owner};
        news->source.task.step = look;
        news->fd = epoll_create1(EPOLL_CLOEXEC);
        r = news->fd < 0 ? err_errno() : scheduler_watch(scheduler, &news->source, news->fd);
        if (r) {
                closep(&news->fd);
                free(news);
                return r;
        }
        payer_ref(payer);
        *owner = news;
        return 0;
}

static void unref(struct news *news)
{
        if (--news->n_watches)
                return;
        *news->owner = NULL;
        scheduler_unwatch(news->scheduler, &news->source, news->fd);
        payer_unref(news->source.payer);
        closep(&news->fd);
        free(news);
}

static int tell_kernel(struct fd_watch *watch, int operation)
{
        struct epoll_event event = {.events = watch->events | EPOLLET, .data.ptr = watch};

        return epoll_ctl(watch->news->fd, operation, watch->fd, &event) ? err_errno() : 0;
}

int fd_watch_begin(struct fd_watch *watch, struct scheduler *scheduler, struct payer *payer,
                   struct news **news, int fd, uint32_t events)
{
        int r = *news ? 0 : news_new(scheduler, payer, news);

        if (r)
                return r;
        (*news)->n_watches++;
        watch->news = *news;
        watch->fd = fd;
        watch->events = events;
        r = tell_kernel(watch, EPOLL_CTL_ADD);
        if (!r)
                return 0;
        watch->news = NULL;
        unref(*news);
        return r;
}

void fd_watch_change(struct fd_watch *watch, uint32_t events)
{
        if (!watch->news || watch->events == events)
                return;
        watch->events = events;
        (void)tell_kernel(watch, EPOLL_CTL_MOD);
}

void fd_watch_end(struct fd_watch *watch)
{
        if (!watch->news)
                return;
        (void)epoll_ctl(watch->news->fd, EPOLL_CTL_DEL, watch->fd, NULL);
        unref(watch->news);
        watch->news = NULL;
}
