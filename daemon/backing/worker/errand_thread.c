/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/backing/worker/errand_thread.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/thread.h"
#include "daemon/backing/worker/abandoned_threads.h"

#define PATIENCE_NS NS_PER_S

struct errand_thread {
        struct errand_rules rules;
        pthread_t thread;
        pthread_mutex_t lock; /* guards the fields below */
        pthread_cond_t came;
        TAILQ_HEAD(, errand) errands;
        bool ending;
};

static struct errand *next(struct errand_thread *self)
{
        struct errand *errand;

        while (TAILQ_EMPTY(&self->errands) && !self->ending)
                pthread_cond_wait(&self->came, &self->lock);
        errand = TAILQ_FIRST(&self->errands);
        if (errand)
                TAILQ_REMOVE(&self->errands, errand, link);
        return errand;
}

static void *run(void *argument)
{
        struct errand_thread *self = argument;
        struct errand *errand;

        thread_name_self(self->rules.name);
        if (self->rules.begin)
                self->rules.begin(self->rules.argument);
        pthread_mutex_lock(&self->lock);
        while ((errand = next(self))) {
                pthread_mutex_unlock(&self->lock);
                errand->run(errand, self->rules.argument);
                pthread_mutex_lock(&self->lock);
        }
        pthread_mutex_unlock(&self->lock);
        return NULL;
}

int errand_thread_new(const struct errand_rules *rules, struct errand_thread **ret_thread)
{
        CLEANUP(freep)
        struct errand_thread *self = calloc(1, sizeof(*self));
        int r;

        if (!self)
                return -ENOMEM;
        self->rules = *rules;
        TAILQ_INIT(&self->errands);
        pthread_mutex_init(&self->lock, NULL);
        pthread_cond_init(&self->came, NULL);
        r = thread_start(run, self, &self->thread);
        if (!r)
                *ret_thread = steal_ptr(self);
        return r;
}

struct errand_thread *errand_thread_free(struct errand_thread *self)
{
        if (!self)
                return NULL;
        pthread_mutex_lock(&self->lock);
        self->ending = true;
        pthread_cond_signal(&self->came);
        pthread_mutex_unlock(&self->lock);
        if (!thread_join_within(self->thread, PATIENCE_NS)) {
                abandoned_threads_add(self->thread, self->rules.why_late);
                return NULL;
        }
        pthread_cond_destroy(&self->came);
        pthread_mutex_destroy(&self->lock);
        free(self);
        return NULL;
}

/* The thread is woken when the lock is free: else the loop wakes it twice. */
void errand_thread_put(struct errand_thread *self, struct errand *take_errand)
{
        pthread_mutex_lock(&self->lock);
        TAILQ_INSERT_TAIL(&self->errands, take_errand, link);
        pthread_mutex_unlock(&self->lock);
        pthread_cond_signal(&self->came);
}
