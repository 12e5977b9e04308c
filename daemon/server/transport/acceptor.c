/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/transport/acceptor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/thread.h"
#include "daemon/backing/worker/fd_closer.h"
#include "daemon/server/transport/lanes.h"
#include "daemon/server/transport/transport.h"
#include "gpumem.h"

/* Before another try, where the kernel has no fd or no memory for a connection. */
#define REST_MS 10

struct acceptor {
        pthread_t thread;
        int listen_fd;
        int stop_fd; /* an eventfd: readable when the thread shall end */
        int spare_fd; /* closed for a moment to accept a connection when the process has no fd left */
        struct fd_closer *closer;
        const struct lanes *lanes;
        void (*wake)(void *argument);
        void *argument;
        atomic_bool has_shortage;
        pthread_mutex_t lock; /* guards the fields below */
        pthread_cond_t has_room;
        struct accepted waiting[ACCEPTOR_WAITING_MAX]; /* a ring */
        unsigned first, n_waiting;
        bool is_ending;
};

/* Waits for a connection, or for `timeout_ms`. Returns whether the thread goes on. */
static bool await_more(const struct acceptor *acceptor, int timeout_ms)
{
        struct pollfd fds[] = {{.fd = acceptor->stop_fd, .events = POLLIN},
                               {.fd = acceptor->listen_fd, .events = POLLIN}};

        (void)poll(fds, timeout_ms < 0 ? 2 : 1, timeout_ms);
        return !fds[0].revents;
}

static bool await_room(struct acceptor *acceptor)
{
        bool goes_on;

        pthread_mutex_lock(&acceptor->lock);
        while (acceptor->n_waiting == ACCEPTOR_WAITING_MAX && !acceptor->is_ending)
                pthread_cond_wait(&acceptor->has_room, &acceptor->lock);
        goes_on = !acceptor->is_ending;
        pthread_mutex_unlock(&acceptor->lock);
        return goes_on;
}

/* What slow users' connections leave to be closed has no other bound. */
static bool await_lanes(struct acceptor *acceptor)
{
        bool goes_on = true;

        while (goes_on && acceptor->lanes && lanes_are_full(acceptor->lanes))
                goes_on = await_more(acceptor, REST_MS);
        return goes_on;
}

/* There is room: this thread alone adds. */
static void hand_over(struct acceptor *acceptor, const struct accepted *accepted)
{
        bool is_first;

        pthread_mutex_lock(&acceptor->lock);
        is_first = acceptor->n_waiting == 0;
        acceptor->waiting[(acceptor->first + acceptor->n_waiting) % ACCEPTOR_WAITING_MAX] =
                *accepted;
        acceptor->n_waiting++;
        pthread_mutex_unlock(&acceptor->lock);
        if (is_first)
                acceptor->wake(acceptor->argument);
}

static void come_in(struct acceptor *acceptor, int fd)
{
        struct accepted accepted = {.fd = fd, .peer_fd = fd, .peer = PEER_NULL};
        struct ucred credentials;
        socklen_t n_bytes = sizeof(credentials);

        if (transport_has_gone(fd) ||
            getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &n_bytes)) {
                fd_closer_take_socket(acceptor->closer, fd);
                return;
        }
        accepted.uid = credentials.uid;
        accepted.fault = peer_init(&accepted.peer, fd);
        /* A child has its socket. It is not known which user a step would be charged to: the uid may be one of a container's
         * many. */
        if (accepted.fault == -ESRCH) {
                transport_turn_away(fd, GPUMEM_E_DENIED, peer_fault(-ESRCH));
                fd_closer_take_socket(acceptor->closer, fd);
                return;
        }
        hand_over(acceptor, &accepted);
}

/* Another thread may have taken its place while it was closed. */
static void keep_spare(struct acceptor *acceptor)
{
        if (acceptor->spare_fd < 0)
                acceptor->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Accepts and refuses a connection when no fd is left. Otherwise it would wait for ever. */
static void turn_away(struct acceptor *acceptor)
{
        int fd;

        closep(&acceptor->spare_fd);
        fd = accept4(acceptor->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
                transport_turn_away(fd, GPUMEM_E_TOO_MANY,
                                    "gpumemd has no file descriptor left for a connection");
                fd_closer_take_socket(acceptor->closer, fd);
        }
        keep_spare(acceptor);
        atomic_store(&acceptor->has_shortage, true);
        acceptor->wake(acceptor->argument);
}

/* Returns whether the thread goes on. */
static bool accept_one(struct acceptor *acceptor)
{
        int fd;

        keep_spare(acceptor);
        fd = accept4(acceptor->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
                come_in(acceptor, fd);
                return true;
        }
        if (errno == EAGAIN)
                return await_more(acceptor, -1);
        if (errno == EMFILE || errno == ENFILE)
                turn_away(acceptor);
        return await_more(acceptor, REST_MS);
}

static void *run(void *argument)
{
        struct acceptor *acceptor = argument;

        thread_name_self("gpumemd-accept");
        thread_prefer_soon();
        while (await_room(acceptor) && await_lanes(acceptor) && accept_one(acceptor))
                ;
        return NULL;
}

static void acceptor_deinit(struct acceptor *acceptor)
{
        closep(&acceptor->stop_fd);
        closep(&acceptor->spare_fd);
        pthread_cond_destroy(&acceptor->has_room);
        pthread_mutex_destroy(&acceptor->lock);
        free(acceptor);
}

int acceptor_new(int listen_fd, struct fd_closer *closer, const struct lanes *lanes,
                 void (*wake)(void *argument), void *argument, struct acceptor **ret_acceptor)
{
        struct acceptor *acceptor = calloc(1, sizeof(*acceptor));
        int r = 0;

        if (!acceptor)
                return -ENOMEM;
        acceptor->listen_fd = listen_fd;
        acceptor->closer = closer;
        acceptor->lanes = lanes;
        acceptor->wake = wake;
        acceptor->argument = argument;
        pthread_mutex_init(&acceptor->lock, NULL);
        pthread_cond_init(&acceptor->has_room, NULL);
        acceptor->spare_fd = -1;
        keep_spare(acceptor);
        acceptor->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (acceptor->stop_fd < 0)
                r = err_errno();
        if (!r)
                r = thread_start(run, acceptor, &acceptor->thread);
        if (r)
                acceptor_deinit(acceptor);
        else
                *ret_acceptor = acceptor;
        return r;
}

static void end_thread(struct acceptor *acceptor)
{
        pthread_mutex_lock(&acceptor->lock);
        acceptor->is_ending = true;
        pthread_cond_signal(&acceptor->has_room);
        pthread_mutex_unlock(&acceptor->lock);
        (void)eventfd_write(acceptor->stop_fd, 1);
        (void)pthread_join(acceptor->thread, NULL);
}

struct acceptor *acceptor_free(struct acceptor *acceptor)
{
        struct accepted accepted;

        if (!acceptor)
                return NULL;
        end_thread(acceptor);
        while (acceptor_take(acceptor, &accepted))
                accepted_close(&accepted, acceptor->closer);
        acceptor_deinit(acceptor);
        return NULL;
}

bool acceptor_take(struct acceptor *acceptor, struct accepted *ret_accepted)
{
        bool has_one;

        pthread_mutex_lock(&acceptor->lock);
        has_one = acceptor->n_waiting > 0;
        if (has_one) {
                *ret_accepted = acceptor->waiting[acceptor->first];
                acceptor->first = (acceptor->first + 1) % ACCEPTOR_WAITING_MAX;
                if (acceptor->n_waiting-- == ACCEPTOR_WAITING_MAX)
                        pthread_cond_signal(&acceptor->has_room);
        }
        pthread_mutex_unlock(&acceptor->lock);
        return has_one;
}

void accepted_close(struct accepted *accepted, struct fd_closer *closer)
{
        fd_closer_take_socket(closer, accepted->fd);
        peer_deinit(&accepted->peer);
}

bool acceptor_take_shortage(struct acceptor *acceptor)
{
        return atomic_exchange(&acceptor->has_shortage, false);
}
