/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/epoll.h"

#include <errno.h>
#include <sys/epoll.h>
#include <uv.h>

#include "base/err.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/loop.h"
#include "tests/fuzz/machine.h"
#include "tests/fuzz/peers.h"

#define N_ITEMS_MAX (5 * N_PEERS)

/* Told whether asked for or not. */
#define ALWAYS ((uint32_t)(EPOLLHUP | EPOLLERR))

static struct item {
        int set; /* 0: the place is free */
        int fd;
        struct epoll_event event;
        uint32_t standing; /* when it was last looked at */
        uint32_t untold;
        bool is_off; /* its one event was told */
} items[N_ITEMS_MAX];

void epoll_begin(void)
{
        memset(items, 0, sizeof(items));
}

static struct item *find(int fd)
{
        for (unsigned i = 0; i < N_ITEMS_MAX; i++) {
                if (items[i].set && items[i].fd == fd)
                        return &items[i];
        }
        return NULL;
}

static uint32_t mask_of(const struct item *item)
{
        return item->is_off ? 0
                            : (item->event.events | ALWAYS) & ~(uint32_t)(EPOLLET | EPOLLONESHOT);
}

static void notice(struct item *item)
{
        uint32_t standing = 0;

        FUZZ_EXPECT(peers_find_ready(item->fd, &standing));
        item->untold = (item->untold & standing) | (standing & ~item->standing);
        item->standing = standing;
}

void epoll_notice(void)
{
        for (unsigned i = 0; i < N_ITEMS_MAX; i++) {
                if (items[i].set && items[i].fd != LOOP_FD)
                        notice(&items[i]);
        }
}

void epoll_again(int fd)
{
        struct item *item = find(fd);

        if (!item)
                return;
        notice(item);
        item->untold = item->standing;
}

uint32_t epoll_asked(int fd)
{
        const struct item *item = find(fd);

        return item ? item->event.events : 0;
}

uint32_t epoll_untold(int fd)
{
        struct item *item = find(fd);

        if (!item)
                return 0;
        epoll_notice();
        return item->untold & mask_of(item);
}

int __wrap_epoll_create1(int flags);
int __wrap_epoll_create1(int flags)
{
        (void)flags;
        return machine_file();
}

static struct item *add(int set, int fd)
{
        struct item *item = items;

        FUZZ_EXPECT(!find(fd));
        while (item->set)
                FUZZ_EXPECT(++item < items + N_ITEMS_MAX);
        *item = (struct item){.set = set, .fd = fd};
        return item;
}

/* What stands at a change is told again. */
int __wrap_epoll_ctl(int set, int operation, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int set, int operation, int fd, struct epoll_event *event)
{
        struct item *item;

        errno = ENOSPC;
        if (operation == EPOLL_CTL_ADD && peers.watch_fails && peers.watch_fails--)
                return -1;
        item = operation == EPOLL_CTL_ADD ? add(set, fd) : find(fd);
        FUZZ_EXPECT(item && item->set == set);
        if (operation == EPOLL_CTL_DEL) {
                *item = (struct item){.set = 0};
                return 0;
        }
        item->event = *event;
        item->is_off = false;
        if (fd == LOOP_FD)
                return 0;
        FUZZ_EXPECT(event->events & EPOLLET);
        notice(item);
        item->untold = item->standing;
        return 0;
}

/* Of an item of which there is something new, all that stands is told. */
int __wrap_epoll_wait(int set, struct epoll_event *events, int n_most, int timeout_ms);
int __wrap_epoll_wait(int set, struct epoll_event *events, int n_most, int timeout_ms)
{
        int n = 0;

        FUZZ_EXPECT(timeout_ms == 0);
        epoll_notice();
        for (unsigned i = 0; i < N_ITEMS_MAX && n < n_most; i++) {
                struct item *item = &items[i];

                if (item->set != set || !(item->untold & mask_of(item)))
                        continue;
                events[n++] = (struct epoll_event){.events = item->standing & mask_of(item),
                                                   .data = item->event.data};
                item->untold = 0;
                item->is_off = item->event.events & EPOLLONESHOT;
        }
        return n;
}
