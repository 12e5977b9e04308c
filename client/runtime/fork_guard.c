/* SPDX-License-Identifier: Apache-2.0 */
#include "client/runtime/fork_guard.h"

#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/fdset.h"

#define WORD_BYTES sizeof(_Atomic uint32_t)

/* All open sockets of the process: a forked child closes them. */
static pthread_mutex_t sockets_lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, fork_socket) sockets = LIST_HEAD_INITIALIZER(sockets);

static void before_fork(void)
{
        pthread_mutex_lock(&sockets_lock);
}

static void after_fork_in_parent(void)
{
        pthread_mutex_unlock(&sockets_lock);
}

static void after_fork_in_child(void)
{
        struct fork_socket *socket;

        LIST_FOREACH (socket, &sockets, link)
                closep(&socket->fd);
        LIST_INIT(&sockets);
        pthread_mutex_unlock(&sockets_lock);
}

__attribute__((constructor(FORK_ORDER_SOCKETS))) static void watch_forks(void)
{
        (void)pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

int fork_socket_open(struct fork_socket *made)
{
        int r = 0;

        pthread_mutex_lock(&sockets_lock);
        made->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (made->fd < 0)
                r = err_errno();
        else
                LIST_INSERT_HEAD(&sockets, made, link);
        pthread_mutex_unlock(&sockets_lock);
        return r;
}

void fork_socket_close(struct fork_socket *socket)
{
        pthread_mutex_lock(&sockets_lock);
        if (socket->fd >= 0)
                LIST_REMOVE(socket, link);
        closep(&socket->fd);
        pthread_mutex_unlock(&sockets_lock);
}

int fork_guard_init(struct fork_guard *guard)
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
        atomic_store(guard->here, 1);
        return 0;
}

void fork_guard_deinit(struct fork_guard *guard)
{
        if (!guard->here)
                return;
        (void)munmap((void *)guard->here, WORD_BYTES);
        guard->here = NULL;
}
