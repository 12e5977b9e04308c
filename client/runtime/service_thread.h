/* SPDX-License-Identifier: Apache-2.0 */
/* The client's one thread of its own: it looks at the pools every few milliseconds while blocks are
 * about to become idle, and reads what the daemon says unasked. It begins when it is first needed, and
 * sleeps without a wake-up while there is nothing to do.
 *
 * It is joined at the client's end and, for clients that are never ended, at the process's, so that it
 * makes no driver call when the driver itself is going. GPUMEM_SERVICE_THREAD=0 in the environment: there
 * is none; those who free look themselves, and what the daemon says waits for the next call. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

/* Between two looks. Two of them pass until a block that has become idle is another's. */
#define SERVICE_THREAD_SOON_MS 3

struct service_thread_owner {
        /* In the thread, before anything else. */
        void (*begin)(void *owner);
        /* Looks once; says in how many ms to look again, at the latest: SERVICE_THREAD_SOON_MS while something is
         * about to happen that nobody tells of, -1 if nothing is. */
        int (*look)(void *owner);
        /* The socket to wait for, or -1. A reference is held until leave(). */
        int (*listen)(void *owner, void **ret_held);
        void (*leave)(void *held);
        /* The socket has something to be read. False: somebody else reads, or it is over. */
        bool (*read)(void *held);
};

struct service_thread {
        const struct service_thread_owner *calls;
        void *owner;
        pthread_t thread;
        _Atomic bool
                allowed; /* set, as the beginning and the end are, under a lock of the process's */
        _Atomic bool running;
        _Atomic bool awake; /* looks again by itself */
        _Atomic bool ending;
        int wake_fd;
        LIST_ENTRY(service_thread) link;
};

/* Reads GPUMEM_SERVICE_THREAD; GPUMEM_E_BAD_SERVICE_THREAD, with which deinit is legal too. */
int service_thread_init(struct service_thread *service, const struct service_thread_owner *calls,
                        void *owner);

/* Joins the thread. Legal also for one that is zero. */
void service_thread_deinit(struct service_thread *service);

/* There is something to look at. False: there is no thread, nor will there be one. */
bool service_thread_wake(struct service_thread *service);

/* There is a thread. */
static inline bool service_thread_is_running(const struct service_thread *service)
{
        return atomic_load(&service->running);
}

/* There may be one, now or later. */
static inline bool service_thread_is_allowed(const struct service_thread *service)
{
        return atomic_load(&service->allowed);
}

/* The same as service_thread_wake, but begins no thread: the daemon is another one. */
void service_thread_nudge(struct service_thread *service);
