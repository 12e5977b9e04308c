/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that runs errands in the order in which they come: what the kernel may make its caller wait for. Any thread. */
#pragma once

#include <stdbool.h>
#include <sys/queue.h>

struct errand {
        TAILQ_ENTRY(errand) link;
        void (*run)(struct errand *errand, void *argument); /* may free it */
};

struct errand_rules {
        const char *name;     /* of the thread */
        const char *why_late; /* the log says this if it is not done within a second at the end */
        void (*begin)(
                void *argument); /* called by the thread, before the first errand; NULL: nothing */
        void *argument;          /* of all calls; outlives the thread */
};

struct errand_thread;

int errand_thread_new(const struct errand_rules *rules, struct errand_thread **ret_thread);

/* NULL is legal; returns NULL. Finishes the queue first, within a limit of time; if that does not suffice the thread stays, with its
 * argument: see abandoned_threads.h. */
struct errand_thread *errand_thread_free(struct errand_thread *thread);

void errand_thread_put(struct errand_thread *thread, struct errand *take_errand);
