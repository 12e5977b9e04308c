#include "daemon/backing/worker.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/err.h"

struct worker {
        struct backing *backing;
        void (*wake)(void *argument);
        void *wake_argument;
        pthread_t thread;
        pthread_mutex_t lock; /* guards what follows */
        pthread_cond_t work_came;
        struct job_queue waiting;
        struct job_queue done;
        bool ending;
};

static void carry_out(struct worker *worker, struct job *job)
{
        switch (job->kind) {
        case JOB_CREATE:
                job->result = worker->backing->create(worker->backing, job->block, job->failure);
                break;
        case JOB_RELEASE:
                worker->backing->release(worker->backing, job->block);
                break;
        }
}

static struct job *next_job(struct worker *worker)
{
        struct job *job;

        pthread_mutex_lock(&worker->lock);
        while (TAILQ_EMPTY(&worker->waiting) && !worker->ending)
                pthread_cond_wait(&worker->work_came, &worker->lock);
        job = TAILQ_FIRST(&worker->waiting);
        if (job)
                TAILQ_REMOVE(&worker->waiting, job, link);
        pthread_mutex_unlock(&worker->lock);
        return job;
}

static void *run(void *argument)
{
        struct worker *worker = argument;
        struct job *job;

        while ((job = next_job(worker))) {
                carry_out(worker, job);
                pthread_mutex_lock(&worker->lock);
                TAILQ_INSERT_TAIL(&worker->done, job, link);
                pthread_mutex_unlock(&worker->lock);
                worker->wake(worker->wake_argument);
        }
        return NULL;
}

/* Signals belong to the loop's thread. */
static int start_thread(struct worker *worker)
{
        sigset_t all, before;
        int r;

        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        r = pthread_create(&worker->thread, NULL, run, worker);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        return -r;
}

int worker_new(struct backing *take_backing, void (*wake)(void *argument), void *wake_argument,
               struct worker **ret_worker)
{
        struct worker *worker = calloc(1, sizeof(*worker));
        int r = -ENOMEM;

        if (worker) {
                worker->backing = take_backing;
                worker->wake = wake;
                worker->wake_argument = wake_argument;
                pthread_mutex_init(&worker->lock, NULL);
                pthread_cond_init(&worker->work_came, NULL);
                TAILQ_INIT(&worker->waiting);
                TAILQ_INIT(&worker->done);
                r = start_thread(worker);
        }
        if (r) {
                take_backing->free(take_backing);
                free(worker);
                return r;
        }
        *ret_worker = worker;
        return 0;
}

struct worker *worker_free(struct worker *worker)
{
        if (!worker)
                return NULL;
        pthread_mutex_lock(&worker->lock);
        worker->ending = true;
        pthread_cond_signal(&worker->work_came);
        pthread_mutex_unlock(&worker->lock);
        pthread_join(worker->thread, NULL);
        worker->backing->free(worker->backing);
        pthread_cond_destroy(&worker->work_came);
        pthread_mutex_destroy(&worker->lock);
        free(worker);
        return NULL;
}

void worker_submit(struct worker *worker, struct job *job)
{
        pthread_mutex_lock(&worker->lock);
        TAILQ_INSERT_TAIL(&worker->waiting, job, link);
        pthread_cond_signal(&worker->work_came);
        pthread_mutex_unlock(&worker->lock);
}

struct job *worker_take_done(struct worker *worker)
{
        struct job *job;

        pthread_mutex_lock(&worker->lock);
        job = TAILQ_FIRST(&worker->done);
        if (job)
                TAILQ_REMOVE(&worker->done, job, link);
        pthread_mutex_unlock(&worker->lock);
        return job;
}

void worker_cancel(struct worker *worker)
{
        if (worker->backing->cancel)
                worker->backing->cancel(worker->backing);
}

enum backing_wholeness worker_look(const struct worker *worker, const struct backing_block *block)
{
        return worker->backing->look ? worker->backing->look(block) : BACKING_WHOLE;
}
