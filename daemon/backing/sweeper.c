#include "daemon/backing/sweeper.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <time.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/log.h"
#include "base/thread.h"
#include "daemon/backing/left.h"

#define PATIENCE_S 1

struct sweep {
        TAILQ_ENTRY(sweep) link;
        void *bytes; /* NULL: it is a file */
        int fd;
        uint64_t n_bytes;
};

struct sweeper {
        pthread_t thread;
        pthread_mutex_t lock; /* guards what follows */
        pthread_cond_t came;
        pthread_cond_t went; /* one is done, or the thread has ended */
        TAILQ_HEAD(, sweep) sweeps;
        uint64_t n_come;
        uint64_t n_done;
        bool is_late; /* somebody waited in vain for what is done now */
        bool ending, has_ended;
};

static void carry_out(struct sweep *sweep)
{
        int r;

        if (sweep->bytes) {
                r = madvise(sweep->bytes, sweep->n_bytes, MADV_REMOVE);
                (void)munmap(sweep->bytes, sweep->n_bytes);
        } else {
                r = fallocate(sweep->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                              (off_t)sweep->n_bytes);
                closep(&sweep->fd);
        }
        if (r < 0)
                log_debug("memory goes back when nobody holds its file: %s", strerror(errno));
}

static struct sweep *next(struct sweeper *sweeper)
{
        struct sweep *sweep;

        while (TAILQ_EMPTY(&sweeper->sweeps) && !sweeper->ending)
                pthread_cond_wait(&sweeper->came, &sweeper->lock);
        sweep = TAILQ_FIRST(&sweeper->sweeps);
        if (sweep)
                TAILQ_REMOVE(&sweeper->sweeps, sweep, link);
        return sweep;
}

static void *run(void *argument)
{
        struct sweeper *sweeper = argument;
        struct sweep *sweep;

        pthread_mutex_lock(&sweeper->lock);
        while ((sweep = next(sweeper))) {
                pthread_mutex_unlock(&sweeper->lock);
                carry_out(sweep);
                free(sweep);
                pthread_mutex_lock(&sweeper->lock);
                sweeper->n_done++;
                sweeper->is_late = false;
                pthread_cond_broadcast(&sweeper->went);
        }
        sweeper->has_ended = true;
        pthread_cond_broadcast(&sweeper->went);
        pthread_mutex_unlock(&sweeper->lock);
        return NULL;
}

int sweeper_new(struct sweeper **ret_sweeper)
{
        CLEANUP(freep)
        struct sweeper *sweeper = calloc(1, sizeof(*sweeper));
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

static struct timespec soon(void)
{
        struct timespec until;

        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += PATIENCE_S;
        return until;
}

static bool await_end(struct sweeper *sweeper)
{
        struct timespec until = soon();
        bool has_ended;
        int r = 0;

        pthread_mutex_lock(&sweeper->lock);
        sweeper->ending = true;
        pthread_cond_signal(&sweeper->came);
        while (!sweeper->has_ended && !r)
                r = pthread_cond_timedwait(&sweeper->went, &sweeper->lock, &until);
        has_ended = sweeper->has_ended;
        pthread_mutex_unlock(&sweeper->lock);
        return has_ended;
}

struct sweeper *sweeper_free(struct sweeper *sweeper)
{
        if (!sweeper)
                return NULL;
        if (!await_end(sweeper)) {
                pthread_detach(sweeper->thread);
                log_warning("a process keeps memory from being taken back; it goes with both");
                left_note();
                return NULL;
        }
        pthread_join(sweeper->thread, NULL);
        pthread_cond_destroy(&sweeper->went);
        pthread_cond_destroy(&sweeper->came);
        pthread_mutex_destroy(&sweeper->lock);
        free(sweeper);
        return NULL;
}

/* Returns its number. */
static uint64_t submit(struct sweeper *sweeper, struct sweep *sweep)
{
        uint64_t number;

        pthread_mutex_lock(&sweeper->lock);
        number = ++sweeper->n_come;
        TAILQ_INSERT_TAIL(&sweeper->sweeps, sweep, link);
        pthread_cond_signal(&sweeper->came);
        pthread_mutex_unlock(&sweeper->lock);
        return number;
}

void sweeper_take_mapping(struct sweeper *sweeper, void *take_bytes, size_t n_bytes)
{
        struct sweep *sweep = malloc(sizeof(*sweep));

        if (!sweep) {
                (void)munmap(take_bytes, n_bytes);
                return;
        }
        *sweep = (struct sweep){.bytes = take_bytes, .fd = -1, .n_bytes = n_bytes};
        (void)submit(sweeper, sweep);
}

/* Once somebody has waited in vain, nobody waits for the same again. */
static void await(struct sweeper *sweeper, uint64_t number)
{
        struct timespec until = soon();
        int r = 0;

        pthread_mutex_lock(&sweeper->lock);
        while (sweeper->n_done < number && !sweeper->is_late && !r)
                r = pthread_cond_timedwait(&sweeper->went, &sweeper->lock, &until);
        if (sweeper->n_done < number)
                sweeper->is_late = true;
        pthread_mutex_unlock(&sweeper->lock);
}

void sweeper_take_file(struct sweeper *sweeper, int take_fd, uint64_t n_bytes)
{
        struct sweep *sweep = malloc(sizeof(*sweep));

        if (!sweep) {
                closep(&take_fd);
                return;
        }
        *sweep = (struct sweep){.fd = take_fd, .n_bytes = n_bytes};
        await(sweeper, submit(sweeper, sweep));
}
