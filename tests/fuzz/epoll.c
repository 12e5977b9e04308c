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
#define N_SETS_MAX  (N_PEERS + 2)

/* Told whether asked for or not. */
#define ALWAYS ((uint32_t)(EPOLLHUP | EPOLLERR))

static struct item {
        int set; /* 0: the place is free */
        int fd;
        struct epoll_event event;
        uint32_t standing; /* when it was last looked at */
        uint32_t untold;
} items[N_ITEMS_MAX];

/* Those that there are: a set may be watched in another. */
static struct set {
        int fd;       /* 0: the place is free */
        bool has_new; /* since it was last looked at by the set in which it is watched */
} sets[N_SETS_MAX];

void epoll_begin(void)
{
        memset(items, 0, sizeof(items));
        memset(sets, 0, sizeof(sets));
}

static struct set *find_set(int fd)
{
        for (unsigned i = 0; i < N_SETS_MAX; i++) {
                if (sets[i].fd == fd)
                        return &sets[i];
        }
        return NULL;
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
        return (item->event.events | ALWAYS) & ~(uint32_t)EPOLLET;
}

static bool tells_any(int set)
{
        for (unsigned i = 0; i < N_ITEMS_MAX; i++) {
                if (items[i].set == set && items[i].untold & mask_of(&items[i]))
                        return true;
        }
        return false;
}

/* Whatever is new in a set is new of the set, too. */
static void notice(struct item *item)
{
        uint32_t standing = 0, begun;

        FUZZ_EXPECT(peers_find_ready(item->fd, &standing));
        begun = standing & ~item->standing;
        item->untold = (item->untold & standing) | begun;
        item->standing = standing;
        if (begun & mask_of(item))
                find_set(item->set)->has_new = true;
}

static void notice_set(struct item *item, struct set *set)
{
        item->standing = tells_any(item->fd) ? EPOLLIN : 0;
        item->untold = item->standing & (item->untold | (set->has_new ? EPOLLIN : 0));
        set->has_new = false;
}

void epoll_notice(void)
{
        for (unsigned i = 0; i < N_ITEMS_MAX; i++) {
                if (items[i].set && items[i].fd != LOOP_FD && !find_set(items[i].fd))
                        notice(&items[i]);
        }
        for (unsigned i = 0; i < N_ITEMS_MAX; i++) {
                struct set *set = items[i].set ? find_set(items[i].fd) : NULL;

                if (set)
                        notice_set(&items[i], set);
        }
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
        struct set *set = find_set(0);

        (void)flags;
        FUZZ_EXPECT(set);
        *set = (struct set){.fd = machine_file()};
        for (unsigned i = 0; i < N_ITEMS_MAX; i++)
                FUZZ_EXPECT(items[i].set != set->fd);
        return set->fd;
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

/* A set that is watched no longer is closed next. */
static void forget_set(int fd)
{
        struct set *set = find_set(fd);

        if (set)
                *set = (struct set){.fd = 0};
}

/* What stands at a change is told again. */
int __wrap_epoll_ctl(int set, int operation, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int set, int operation, int fd, struct epoll_event *event)
{
        struct item *item = operation == EPOLL_CTL_ADD ? add(set, fd) : find(fd);

        FUZZ_EXPECT(item && item->set == set);
        if (operation == EPOLL_CTL_DEL) {
                *item = (struct item){.set = 0};
                forget_set(fd);
                return 0;
        }
        item->event = *event;
        if (fd == LOOP_FD)
                return 0;
        FUZZ_EXPECT(event->events & EPOLLET);
        epoll_notice();
        item->untold = item->standing;
        find_set(set)->has_new |= item->untold & mask_of(item);
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
        }
        return n;
}
