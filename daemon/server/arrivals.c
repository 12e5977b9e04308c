/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/arrivals.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/thread.h"
#include "daemon/server/transport/socket_close.h"
#include "gpumem.h"

/* Connections of a user that wait for its turn. Later ones are turned away. */
#define ARRIVALS_A_USER 512

/* Connections of one user that the thread identifies before it goes on with another user's. */
#define BATCH 1

struct arrival {
        TAILQ_ENTRY(arrival) link;
        enum session_way way;
        int fd;
        int result; /* of peer_init */
        struct peer peer;
};

TAILQ_HEAD(arrival_list, arrival);

/* Connections of one user, or of the admin socket. There is a door while there is one. */
struct door {
        struct task task; /* lets in the first that is known */
        LIST_ENTRY(door) link;
        TAILQ_ENTRY(door) queue_link;
        struct arrivals *all;
        struct user *user; /* NULL: the admin socket's */
        struct arrival_list waiting;
        struct arrival_list asked; /* the thread's own while is_asked */
        struct arrival_list known;
        unsigned n; /* in all three */
        bool is_asked;
};

static struct door **door_of(struct arrivals *arrivals, struct user *user)
{
        return user ? &user->door : &arrivals->admin;
}

static void door_free(struct door *door)
{
        scheduler_take_out(&door->task);
        LIST_REMOVE(door, link);
        *door_of(door->all, door->user) = NULL;
        (void)user_unref(door->user);
        free(door);
}

static void put(struct door *door)
{
        struct scheduler *scheduler = &door->all->server->scheduler;

        scheduler_put(scheduler, door->user ? &door->user->payer : &scheduler->admin, &door->task);
}

static void ask(struct door *door)
{
        struct arrivals *arrivals = door->all;
        struct arrival *arrival;

        for (unsigned i = 0; i < BATCH && (arrival = TAILQ_FIRST(&door->waiting)); i++) {
                TAILQ_REMOVE(&door->waiting, arrival, link);
                TAILQ_INSERT_TAIL(&door->asked, arrival, link);
        }
        door->is_asked = true;
        pthread_mutex_lock(&arrivals->lock);
        TAILQ_INSERT_TAIL(&arrivals->asked, door, queue_link);
        pthread_cond_signal(&arrivals->came);
        pthread_mutex_unlock(&arrivals->lock);
}

static void go_on(struct door *door)
{
        if (!door->is_asked && !TAILQ_EMPTY(&door->waiting))
                ask(door);
        if (!TAILQ_EMPTY(&door->known))
                put(door);
        else if (!door->n)
                door_free(door);
}

static void let_in(struct task *task)
{
        struct door *door = CONTAINER_OF(task, struct door, task);
        struct arrival *arrival = TAILQ_FIRST(&door->known);

        TAILQ_REMOVE(&door->known, arrival, link);
        door->n--;
        session_accept(door->all->server, arrival->fd, arrival->way, arrival->result,
                       &arrival->peer);
        free(arrival);
        go_on(door);
}

static void on_answers(uv_async_t *wake)
{
        struct arrivals *arrivals = CONTAINER_OF(wake, struct arrivals, wake);
        struct door_queue answered = TAILQ_HEAD_INITIALIZER(answered);
        struct door *door;

        pthread_mutex_lock(&arrivals->lock);
        TAILQ_CONCAT(&answered, &arrivals->answered, queue_link);
        pthread_mutex_unlock(&arrivals->lock);
        while ((door = TAILQ_FIRST(&answered))) {
                TAILQ_REMOVE(&answered, door, queue_link);
                TAILQ_CONCAT(&door->known, &door->asked, link);
                door->is_asked = false;
                go_on(door);
        }
}

static struct door *next_asked(struct arrivals *arrivals)
{
        struct door *door;

        while (TAILQ_EMPTY(&arrivals->asked) && !arrivals->ending)
                pthread_cond_wait(&arrivals->came, &arrivals->lock);
        door = arrivals->ending ? NULL : TAILQ_FIRST(&arrivals->asked);
        if (door)
                TAILQ_REMOVE(&arrivals->asked, door, queue_link);
        return door;
}

static void *run(void *argument)
{
        struct arrivals *arrivals = argument;
        struct arrival *arrival;
        struct door *door;

        pthread_mutex_lock(&arrivals->lock);
        while ((door = next_asked(arrivals))) {
                pthread_mutex_unlock(&arrivals->lock);
                TAILQ_FOREACH (arrival, &door->asked, link)
                        arrival->result = peer_init(&arrival->peer, arrival->fd);
                pthread_mutex_lock(&arrivals->lock);
                TAILQ_INSERT_TAIL(&arrivals->answered, door, queue_link);
                (void)uv_async_send(&arrivals->wake);
        }
        pthread_mutex_unlock(&arrivals->lock);
        return NULL;
}

int arrivals_open(struct arrivals *arrivals, struct server *server)
{
        int r;

        *arrivals = (struct arrivals){.server = server};
        LIST_INIT(&arrivals->doors);
        TAILQ_INIT(&arrivals->asked);
        TAILQ_INIT(&arrivals->answered);
        pthread_mutex_init(&arrivals->lock, NULL);
        pthread_cond_init(&arrivals->came, NULL);
        r = uv_async_init(&server->loop, &arrivals->wake, on_answers);
        arrivals->has_wake = !r;
        if (!r)
                r = thread_start(run, arrivals, &arrivals->thread);
        arrivals->has_thread = !r;
        return r;
}

static void turn_out(struct door *door, struct arrival_list *list)
{
        struct arrival *arrival;

        while ((arrival = TAILQ_FIRST(list))) {
                TAILQ_REMOVE(list, arrival, link);
                socket_close(door->all->server, arrival->fd);
                peer_deinit(&arrival->peer);
                free(arrival);
        }
}

static void end_thread(struct arrivals *arrivals)
{
        pthread_mutex_lock(&arrivals->lock);
        arrivals->ending = true;
        pthread_cond_signal(&arrivals->came);
        pthread_mutex_unlock(&arrivals->lock);
        pthread_join(arrivals->thread, NULL);
}

void arrivals_close(struct arrivals *arrivals, uv_close_cb on_closed)
{
        struct door *door;

        if (arrivals->has_thread)
                end_thread(arrivals);
        while ((door = LIST_FIRST(&arrivals->doors))) {
                turn_out(door, &door->known);
                turn_out(door, &door->asked);
                turn_out(door, &door->waiting);
                door_free(door);
        }
        if (arrivals->has_wake)
                uv_close((uv_handle_t *)&arrivals->wake, on_closed);
}

static struct door *door_new(struct arrivals *arrivals, struct user *user)
{
        struct door *door = calloc(1, sizeof(*door));

        if (!door)
                return NULL;
        door->task = (struct task){.step = let_in};
        door->all = arrivals;
        TAILQ_INIT(&door->waiting);
        TAILQ_INIT(&door->asked);
        TAILQ_INIT(&door->known);
        LIST_INSERT_HEAD(&arrivals->doors, door, link);
        door->user = user;
        if (user)
                payer_ref(&user->payer);
        *door_of(arrivals, user) = door;
        return door;
}

int arrivals_add(struct arrivals *arrivals, struct user *user, enum session_way way, int take_fd)
{
        struct door *door = *door_of(arrivals, user);
        struct arrival *arrival;

        if (door && user && door->n == ARRIVALS_A_USER)
                return GPUMEM_E_TOO_MANY;
        arrival = malloc(sizeof(*arrival));
        if (arrival && !door)
                door = door_new(arrivals, user);
        if (!arrival || !door) {
                free(arrival);
                return -ENOMEM;
        }
        *arrival = (struct arrival){.way = way, .fd = take_fd, .peer = PEER_NULL};
        TAILQ_INSERT_TAIL(&door->waiting, arrival, link);
        door->n++;
        if (!door->is_asked)
                ask(door);
        return 0;
}
