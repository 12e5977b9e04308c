/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/emulator/stream/orphaned_work.h"

#include <pthread.h>
#include <unistd.h>

#include "base/clock.h"
#include "driver/emulator/context/context.h"
#include "driver/emulator/machine/emulator.h"
#include "driver/emulator/stream/stream.h"

#define POLL_US 1000

/* Longer than the tables are ever held; a thread that forks may have locks that others wait for. */
#define PATIENCE_US 2000000

/* Whether the calling thread, which forks, holds the emulator's lock; then no other thread does. */
static _Thread_local enum { TABLES_UNSETTLED, TABLES_HELD } tables;

static pid_t parent; /* of the child that is being made; under the lock */

/* A failure to lock leaves that child without the work. */
static void before_fork(void)
{
        tables = TABLES_UNSETTLED;
        if (!emulator_is_live() || !emulator_lock_within(PATIENCE_US))
                return;
        parent = getpid();
        tables = TABLES_HELD;
        for (struct stream *stream = NULL; (stream = stream_next(stream));)
                (void)pthread_mutex_lock(&stream->mutex);
}

static void after_fork(void)
{
        if (tables != TABLES_HELD)
                return;
        for (struct stream *stream = NULL; (stream = stream_next(stream));)
                (void)pthread_mutex_unlock(&stream->mutex);
        emulator_unlock();
}

/* Skips operations that the parent did before its end. */
static struct operation *next_operation(struct stream *stream)
{
        uint64_t n_done = __atomic_load_n(stream->progress, __ATOMIC_ACQUIRE);
        struct operation *operation = stream->running;

        if (operation && operation->sequence > n_done)
                return operation;
        stream->running = NULL;
        while ((operation = stream->first) && operation->sequence <= n_done)
                stream->first = operation->next;
        if (stream->completed < n_done)
                stream->completed = n_done;
        return operation;
}

enum step { STEP_DONE, STEP_WAITS, STEP_OVER };

static enum step step(struct stream *stream)
{
        struct operation *operation = next_operation(stream);
        CUresult r;

        if (!operation || !operation->type->outlives ||
            context_failure(stream->context) != CUDA_SUCCESS)
                return STEP_OVER;
        for (unsigned i = 0; i < operation->n_after; i++)
                if (!moment_has_passed(&operation->after[i]))
                        return STEP_WAITS;
        if (operation->type->is_held && operation->type->is_held(operation, stream->context))
                return STEP_WAITS;
        r = operation->type->run(operation, stream->context);
        if (r != CUDA_SUCCESS)
                context_fail(stream->context, r);
        __atomic_store_n(stream->progress, operation->sequence, __ATOMIC_RELEASE);
        return STEP_DONE;
}

static void *orphaned_work_main(void *argument)
{
        unsigned n_left;

        (void)argument;
        while (getppid() == parent)
                clock_sleep_us(POLL_US);
        do {
                unsigned n_done = 0;

                n_left = 0;
                for (struct stream *stream = NULL; (stream = stream_next(stream));) {
                        enum step made = step(stream);

                        n_done += made == STEP_DONE;
                        n_left += made != STEP_OVER;
                }
                if (n_left && !n_done)
                        clock_sleep_us(POLL_US);
        } while (n_left);
        return NULL;
}

static void in_child(void)
{
        bool is_busy = false;

        if (tables != TABLES_HELD)
                return;
        for (struct stream *stream = NULL; (stream = stream_next(stream));)
                is_busy |= stream->running || stream->first;
        after_fork();
        if (is_busy)
                (void)emulator_start_thread(orphaned_work_main, NULL);
}

CUresult orphaned_work_init(void)
{
        return pthread_atfork(before_fork, after_fork, in_child) ? CUDA_ERROR_OUT_OF_MEMORY
                                                                 : CUDA_SUCCESS;
}
