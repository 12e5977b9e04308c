/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/backing/worker/worker.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/size.h"
#include "base/thread.h"
#include "daemon/backing/worker/abandoned_threads.h"
#include "daemon/backing/worker/job_lines.h"

#define END_STEP_MS 50

struct worker {
        struct backing *backing;
        void (*wake)(void *argument);
        void *wake_argument;
        pthread_t thread;
        pthread_mutex_t lock; /* guards the fields below */
        pthread_cond_t work_came;
        struct job_lines waiting;
        struct job_queue done;
        pthread_cond_t ended;
        bool ending, has_ended;
        bool is_left;              /* abandoned: no loop is left to wake */
        _Atomic uint64_t begin_ns; /* of the running job, or of the last one */
        _Atomic uint64_t end_ns;   /* when the running job should be done; 0: none runs */
};

static void set_end(struct worker *worker, const struct job *job)
{
        const struct backing *backing = worker->backing;
        uint64_t n_bytes = job->block ? job->block->n_bytes : 0;
        uint64_t now_ns = clock_now_ns();

        if (!backing->call_ns)
                return;
        atomic_store(&worker->begin_ns, now_ns);
        atomic_store(&worker->end_ns,
                     now_ns + backing->call_ns + n_bytes / MIB * backing->call_ns_per_gib / 1024);
}

static void carry_out(struct worker *worker, struct job *job)
{
        switch (job->kind) {
        case JOB_CREATE:
                job->result = worker->backing->create(worker->backing, job->block, job->failure);
                break;
        case JOB_RELEASE:
                job->result = worker->backing->release(worker->backing, job->block);
                break;
        case JOB_TRY:
                job->result = worker->backing->try(worker->backing, job->block);
                break;
        }
}

static struct job *next_job(struct worker *worker, uint64_t n_ns_used)
{
        struct job *job;

        pthread_mutex_lock(&worker->lock);
        job_lines_charge(&worker->waiting, n_ns_used);
        while (!(job = job_lines_take(&worker->waiting)) && !worker->ending)
                pthread_cond_wait(&worker->work_came, &worker->lock);
        pthread_mutex_unlock(&worker->lock);
        return job;
}

static void put_done(struct worker *worker, struct job *job)
{
        pthread_mutex_lock(&worker->lock);
        TAILQ_INSERT_TAIL(&worker->done, job, link);
        if (!worker->is_left)
                worker->wake(worker->wake_argument);
        pthread_mutex_unlock(&worker->lock);
}

static void *run(void *argument)
{
        struct worker *worker = argument;
        uint64_t n_ns_used = 0;
        struct job *job;

        thread_name_self("gpumemd-worker");
        while ((job = next_job(worker, n_ns_used))) {
                uint64_t begin_ns = clock_now_ns();

                set_end(worker, job);
                carry_out(worker, job);
                n_ns_used = clock_now_ns() - begin_ns;
                atomic_store(&worker->end_ns, 0);
                put_done(worker, job);
        }
        pthread_mutex_lock(&worker->lock);
        worker->has_ended = true;
        pthread_cond_signal(&worker->ended);
        pthread_mutex_unlock(&worker->lock);
        return NULL;
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
                condition_init_monotonic(&worker->ended);
                job_lines_init(&worker->waiting);
                TAILQ_INIT(&worker->done);
                r = thread_start(run, worker, &worker->thread);
        }
        if (r) {
                take_backing->free(take_backing);
                free(worker);
                return r;
        }
        *ret_worker = worker;
        return 0;
}

/* Waits for the thread's end. False: it hangs in the driver. */
static bool await_end(struct worker *worker)
{
        struct timespec until;
        bool has_ended;

        pthread_mutex_lock(&worker->lock);
        worker->ending = true;
        pthread_cond_broadcast(&worker->work_came);
        while (!worker->has_ended && !worker_late_since(worker, clock_now_ns())) {
                until = clock_after_ms(END_STEP_MS);
                (void)pthread_cond_timedwait(&worker->ended, &worker->lock, &until);
        }
        has_ended = worker->has_ended;
        worker->is_left = !has_ended;
        pthread_mutex_unlock(&worker->lock);
        return has_ended;
}

struct worker *worker_free(struct worker *worker)
{
        if (!worker)
                return NULL;
        if (!await_end(worker)) {
                abandoned_threads_add(worker->thread,
                                      "the driver does not answer; its worker thread is abandoned");
                return NULL;
        }
        pthread_join(worker->thread, NULL);
        worker->backing->free(worker->backing);
        pthread_cond_destroy(&worker->ended);
        pthread_cond_destroy(&worker->work_came);
        pthread_mutex_destroy(&worker->lock);
        free(worker);
        return NULL;
}

void worker_submit(struct worker *worker, struct job *job)
{
        pthread_mutex_lock(&worker->lock);
        job_lines_put(&worker->waiting, job);
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

uint64_t worker_late_since(const struct worker *worker, uint64_t now_ns)
{
        uint64_t end_ns = atomic_load(&worker->end_ns);

        return end_ns && now_ns >= end_ns ? atomic_load(&worker->begin_ns) : 0;
}

bool worker_needs_driver(const struct worker *worker)
{
        return worker->backing->try != NULL;
}

enum backing_wholeness worker_look(const struct worker *worker, const struct backing_block *block)
{
        return worker->backing->look ? worker->backing->look(block) : BACKING_WHOLE;
}
