#include "client/fork.h"

#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "gpumem.h"

#define WORD_BYTES sizeof(_Atomic uint32_t)

/* The process's clients, for the one moment that concerns them all: fork. */
static pthread_mutex_t guards_lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, fork_guard) guards = LIST_HEAD_INITIALIZER(guards);
static pthread_once_t watch_once = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
        pthread_mutex_lock(&guards_lock);
}

static void after_fork_in_parent(void)
{
        pthread_mutex_unlock(&guards_lock);
}

static void after_fork_in_child(void)
{
        struct fork_guard *guard;

        LIST_FOREACH (guard, &guards, link) {
                (void)close(guard->socket);
        }
        LIST_INIT(&guards);
        pthread_mutex_unlock(&guards_lock);
}

static void watch_forks(void)
{
        (void)pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

int fork_guard_init(struct fork_guard *guard, int socket)
{
        void *page = mmap(NULL, WORD_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                          0);

        if (page == MAP_FAILED)
                return err_errno();
        if (madvise(page, WORD_BYTES, MADV_WIPEONFORK) < 0) {
                int r = err_errno();

                (void)munmap(page, WORD_BYTES);
                return r;
        }
        guard->here = page;
        guard->socket = socket;
        atomic_store(guard->here, 1);
        (void)pthread_once(&watch_once, watch_forks);
        pthread_mutex_lock(&guards_lock);
        LIST_INSERT_HEAD(&guards, guard, link);
        pthread_mutex_unlock(&guards_lock);
        return 0;
}

void fork_guard_set_socket(struct fork_guard *guard, int socket)
{
        pthread_mutex_lock(&guards_lock);
        guard->socket = socket;
        pthread_mutex_unlock(&guards_lock);
}

void fork_guard_deinit(struct fork_guard *guard)
{
        if (!guard->here)
                return;
        pthread_mutex_lock(&guards_lock);
        LIST_REMOVE(guard, link);
        pthread_mutex_unlock(&guards_lock);
        (void)munmap((void *)guard->here, WORD_BYTES);
        guard->here = NULL;
}

int fork_guard_check(const struct fork_guard *guard)
{
        return atomic_load_explicit(guard->here, memory_order_relaxed) ? 0 : GPUMEM_E_FORKED;
}
