/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/backing/worker/page_sweeper.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fdset.h"
#include "base/log.h"
#include "base/thread.h"
#include "daemon/backing/worker/abandoned_threads.h"

#define PATIENCE_MS 1000

/* More than a row or a header has. */
#define START_BYTES 4096

/* Sweeps that wait: each mapping in the queue is one of those that the process may have. */
#define MANY_WAITING       4096
#define MANY_WAITING_BYTES (UINT64_C(256) << 20)

struct sweep {
        TAILQ_ENTRY(sweep) link;
        bool is_file; /* else a mapping */
        void *bytes;
        int fd;
        uint64_t n_bytes;
        bool is_under_way, is_done;
        bool is_awaited; /* a caller waits, and frees it */
};

struct page_sweeper {
        pthread_t thread;
        pthread_mutex_t lock; /* guards the fields below */
        pthread_cond_t came;
        pthread_cond_t went;        /* a sweep is done */
        TAILQ_HEAD(, sweep) sweeps; /* the queue, with the sweep under way */
        unsigned n;                 /* of them that are mappings, and their bytes */
        uint64_t n_bytes;
        void (*after)(void *argument);
        void *argument;
        bool is_late; /* a caller gave up waiting for the sweep under way */
        bool ending;
};

/* Drops mapping and fd. Without other holders the kernel frees the memory. */
static void let_go(struct sweep *sweep)
{
        if (sweep->bytes)
                (void)munmap(sweep->bytes, sweep->n_bytes);
        sweep->bytes = NULL;
        closep(&sweep->fd);
}

static void clear_start(void *bytes, uint64_t n_bytes)
{
        memset(bytes, 0, n_bytes < START_BYTES ? n_bytes : START_BYTES);
}

static void carry_out(struct sweep *sweep)
{
        int r;

        if (sweep->bytes) {
                clear_start(sweep->bytes, sweep->n_bytes);
                r = madvise(sweep->bytes, sweep->n_bytes, MADV_REMOVE);
        } else
                r = fallocate(sweep->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                              (off_t)sweep->n_bytes);
        if (r < 0)
                log_debug("cannot free pages now; they are freed when the file has no holder: %s",
                          strerror(errno));
        let_go(sweep);
}

static struct sweep *next(struct page_sweeper *sweeper)
{
        struct sweep *sweep;

        while (TAILQ_EMPTY(&sweeper->sweeps) && !sweeper->ending)
                pthread_cond_wait(&sweeper->came, &sweeper->lock);
        sweep = TAILQ_FIRST(&sweeper->sweeps);
        if (sweep)
                sweep->is_under_way = true;
        return sweep;
}

static void take_out(struct page_sweeper *sweeper, struct sweep *sweep)
{
        TAILQ_REMOVE(&sweeper->sweeps, sweep, link);
        if (sweep->is_file)
                return;
        sweeper->n--;
        sweeper->n_bytes -= sweep->n_bytes;
}

/* Called with the lock, which is free meanwhile. */
static void call_after(struct page_sweeper *sweeper)
{
        void (*after)(void *argument) = sweeper->after;
        void *argument = sweeper->argument;

        if (!after || sweeper->ending)
                return;
        pthread_mutex_unlock(&sweeper->lock);
        after(argument);
        pthread_mutex_lock(&sweeper->lock);
}

static void *run(void *argument)
{
        struct page_sweeper *sweeper = argument;
        struct sweep *sweep;

        thread_name_self("gpumemd-sweep");
        pthread_mutex_lock(&sweeper->lock);
        while ((sweep = next(sweeper))) {
                pthread_mutex_unlock(&sweeper->lock);
                carry_out(sweep);
                pthread_mutex_lock(&sweeper->lock);
                take_out(sweeper, sweep);
                sweep->is_done = true;
                if (!sweep->is_awaited)
                        free(sweep);
                pthread_cond_broadcast(&sweeper->went);
                call_after(sweeper);
                /* Callers that gave up waited for this sweep, or for what came after it. */
                sweeper->is_late = false;
        }
        pthread_mutex_unlock(&sweeper->lock);
        return NULL;
}

int page_sweeper_new(struct page_sweeper **ret_sweeper)
{
        CLEANUP(freep)
        struct page_sweeper *sweeper = calloc(1, sizeof(*sweeper));
        int r;

        if (!sweeper)
                return -ENOMEM;
        TAILQ_INIT(&sweeper->sweeps);
        pthread_mutex_init(&sweeper->lock, NULL);
        pthread_cond_init(&sweeper->came, NULL);
        condition_init_monotonic(&sweeper->went);
        r = thread_start(run, sweeper, &sweeper->thread);
        if (!r)
                *ret_sweeper = steal_ptr(sweeper);
        return r;
}

void page_sweeper_set_after(struct page_sweeper *sweeper, void (*after)(void *argument),
                            void *argument)
{
        pthread_mutex_lock(&sweeper->lock);
        sweeper->after = after;
        sweeper->argument = argument;
        pthread_mutex_unlock(&sweeper->lock);
}

struct page_sweeper *page_sweeper_free(struct page_sweeper *sweeper)
{
        if (!sweeper)
                return NULL;
        pthread_mutex_lock(&sweeper->lock);
        sweeper->ending = true;
        pthread_cond_signal(&sweeper->came);
        pthread_mutex_unlock(&sweeper->lock);
        if (!thread_join_within(sweeper->thread, PATIENCE_MS * NS_PER_MS)) {
                abandoned_threads_add(
                        sweeper->thread,
                        "a process delays freeing memory; the kernel frees it when the "
                        "process and gpumemd have ended");
                return NULL;
        }
        pthread_cond_destroy(&sweeper->went);
        pthread_cond_destroy(&sweeper->came);
        pthread_mutex_destroy(&sweeper->lock);
        free(sweeper);
        return NULL;
}

static struct sweep *sweep_new(void *bytes, int fd, uint64_t n_bytes)
{
        struct sweep *sweep = malloc(sizeof(*sweep));

        if (sweep)
                *sweep = (struct sweep){
                        .is_file = !bytes, .bytes = bytes, .fd = fd, .n_bytes = n_bytes};
        return sweep;
}

static void submit(struct page_sweeper *sweeper, struct sweep *sweep)
{
        TAILQ_INSERT_TAIL(&sweeper->sweeps, sweep, link);
        if (sweep->is_file)
                return;
        sweeper->n++;
        sweeper->n_bytes += sweep->n_bytes;
}

/* The thread is woken when the lock is free: else the loop wakes it twice. */
void page_sweeper_take_mapping(struct page_sweeper *sweeper, void *take_bytes, size_t n_bytes)
{
        struct sweep *sweep = sweep_new(take_bytes, -1, n_bytes);

        if (!sweep) {
                (void)munmap(take_bytes, n_bytes);
                return;
        }
        pthread_mutex_lock(&sweeper->lock);
        submit(sweeper, sweep);
        pthread_mutex_unlock(&sweeper->lock);
        pthread_cond_signal(&sweeper->came);
}

bool page_sweeper_keeps_up(struct page_sweeper *sweeper)
{
        bool keeps_up;

        pthread_mutex_lock(&sweeper->lock);
        keeps_up = sweeper->n < MANY_WAITING && sweeper->n_bytes < MANY_WAITING_BYTES;
        pthread_mutex_unlock(&sweeper->lock);
        return keeps_up;
}

/* Waits for the sweep. True: it is done or was dequeued, and the caller owns it. */
static bool await(struct page_sweeper *sweeper, struct sweep *sweep)
{
        struct timespec until = clock_after_ms(PATIENCE_MS);
        int r = 0;

        while (!sweep->is_done && !sweeper->is_late && !r)
                r = pthread_cond_timedwait(&sweeper->went, &sweeper->lock, &until);
        if (sweep->is_done)
                return true;
        sweeper->is_late = true;
        sweep->is_awaited = false;
        if (sweep->is_under_way)
                return false;
        take_out(sweeper, sweep);
        return true;
}

/* After a caller has waited in vain, no later caller waits for the same sweep. */
void page_sweeper_take_file(struct page_sweeper *sweeper, int take_fd, uint64_t n_bytes)
{
        struct sweep *sweep = sweep_new(NULL, take_fd, n_bytes);
        bool is_ours = true;

        if (!sweep) {
                closep(&take_fd);
                return;
        }
        sweep->is_awaited = true;
        pthread_mutex_lock(&sweeper->lock);
        if (!sweeper->is_late) {
                submit(sweeper, sweep);
                pthread_cond_signal(&sweeper->came);
                is_ours = await(sweeper, sweep);
        }
        pthread_mutex_unlock(&sweeper->lock);
        if (!is_ours)
                return;
        let_go(sweep);
        free(sweep);
}
