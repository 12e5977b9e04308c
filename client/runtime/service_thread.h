/* SPDX-License-Identifier: Apache-2.0 */
/* The service thread: the only thread that the client starts. While blocks are about to become idle, it looks at the
 * pools every few milliseconds. It also reads the daemon's notices, which come unasked. It begins when it is first
 * needed, and sleeps without wake-ups while there is nothing to do.
 *
 * The end of the client joins it. For clients that never end, the end of the process does, so that the thread makes
 * no driver call while the driver shuts down. With GPUMEM_SERVICE_THREAD=0 in the environment there is no thread:
 * threads that free do its work, and the daemon's notices wait for the next call. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

/* The time between two looks. Two pass before a block that has become idle can be revoked for another process. */
#define SERVICE_THREAD_SOON_MS 3

struct service_thread_owner {
        /* Called in the thread, before anything else. */
        void (*begin)(void *owner);
        /* Looks once. Returns in how many ms to look again, at the latest: SERVICE_THREAD_SOON_MS while something is
         * about to happen that causes no wake-up, -1 if nothing is. */
        int (*look)(void *owner);
        /* The socket to wait for, or -1: there is none, or its connection is over, so that it would be readable for ever.
         * ret_held is a reference, which leave() gives back. */
        int (*listen)(void *owner, void **ret_held);
        void (*leave)(void *held);
        /* The socket is readable. False: another thread reads it, or the connection is over. */
        bool (*read)(void *held);
};

struct service_thread {
        const struct service_thread_owner *calls;
        void *owner;
        pthread_t thread;
        _Atomic bool allowed; /* set, like the beginning and the end, under a lock of the process */
        _Atomic bool running;
        _Atomic bool awake; /* it will look again without a wake-up */
        _Atomic bool ending;
        int wake_fd;
        LIST_ENTRY(service_thread) link;
};

/* Reads GPUMEM_SERVICE_THREAD; GPUMEM_E_BAD_SERVICE_THREAD, with which deinit is legal too. */
int service_thread_init(struct service_thread *service, const struct service_thread_owner *calls,
                        void *owner);

/* Joins the thread. Legal for a zeroed struct, too. */
void service_thread_deinit(struct service_thread *service);

/* Wakes the thread, and starts it if need be. False: there is no thread, and there will not be one. */
bool service_thread_wake(struct service_thread *service);

/* Is there a thread? */
static inline bool service_thread_is_running(const struct service_thread *service)
{
        return atomic_load(&service->running);
}

/* May there be a thread, now or later? */
static inline bool service_thread_is_allowed(const struct service_thread *service)
{
        return atomic_load(&service->allowed);
}

/* Wakes the thread if there is one: the client is connected to another daemon. */
void service_thread_nudge(struct service_thread *service);
