/* SPDX-License-Identifier: Apache-2.0 */
#include "client/connection/reconnect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/thread.h"
#include "client/runtime/last_error.h"
#include "gpumem.h"

static int copy_text(const char *text, char **ret_copy)
{
        *ret_copy = text ? strdup(text) : NULL;
        return text && !*ret_copy ? -ENOMEM : 0;
}

int reconnect_init(struct reconnector *reconnector, const char *socket_path, const char *program,
                   struct events *events, const struct reconnect_owner *calls, void *owner)
{
        struct link_hello hello = {.program = program, .notice = calls->notice, .owner = owner};
        int r;

        *reconnector = (struct reconnector){.events = events, .calls = calls, .owner = owner};
        pthread_mutex_init(&reconnector->lock, NULL);
        condition_init_monotonic(&reconnector->news);
        r = copy_text(socket_path, &reconnector->socket_path);
        if (!r)
                r = copy_text(program, &reconnector->program);
        if (!r)
                r = connection_new(socket_path, &hello, 1, &reconnector->connection);
        return r;
}

void reconnect_stop_notices(struct reconnector *reconnector)
{
        if (reconnector->calls && reconnector->connection)
                link_stop_notices(reconnector->connection->link);
}

void reconnect_deinit(struct reconnector *reconnector)
{
        if (!reconnector->calls)
                return;
        reconnector->connection = connection_unref(reconnector->connection);
        free(reconnector->socket_path);
        free(reconnector->program);
        pthread_cond_destroy(&reconnector->news);
        pthread_mutex_destroy(&reconnector->lock);
        reconnector->calls = NULL;
}

static void tell(struct reconnector *reconnector, enum gpumem_event_kind kind)
{
        struct gpumem_event event = {.kind = kind};

        events_note(reconnector->events, &event);
}

/* The reference to the last connection is dropped when no thread can reach it here any more. */
static void publish(struct reconnector *reconnector, struct connection *take_connection)
{
        struct connection *last;

        pthread_mutex_lock(&reconnector->lock);
        last = reconnector->connection;
        reconnector->connection = take_connection;
        reconnector->lost = false;
        pthread_cond_broadcast(&reconnector->news);
        pthread_mutex_unlock(&reconnector->lock);
        connection_unref(last);
}

/* A daemon that accepts no more connections now may accept some later. So a client that had one treats it as away,
 * and a caller that waits tries again. The last error keeps the daemon's text. */
static int as_away(int r)
{
        char text[GPUMEM_TEXT_BYTES];

        if (r != GPUMEM_E_TOO_MANY)
                return r;
        (void)snprintf(text, sizeof(text), "%s", last_error_reason(r));
        last_error_set(GPUMEM_E_DISCONNECTED, text);
        return GPUMEM_E_DISCONNECTED;
}

/* Only one thread connects, so no other changes reconnector->connection meanwhile. */
static int connect_again(struct reconnector *reconnector)
{
        const struct connection *last = reconnector->connection;
        struct link_hello hello = {.program = reconnector->program,
                                   .notice = reconnector->calls->notice,
                                   .owner = reconnector->owner,
                                   .incarnation = last->incarnation};
        struct connection *connection;
        int r;

        hello.n_held_bytes = reconnector->calls->detach(reconnector->owner);
        r = as_away(
                connection_new(reconnector->socket_path, &hello, last->serial + 1, &connection));
        if (r)
                return r;
        r = reconnector->calls->attach(reconnector->owner, connection);
        if (r) {
                connection_unref(connection);
                return r;
        }
        log_debug("connected again; %llu bytes of the last daemon's blocks are held",
                  (unsigned long long)hello.n_held_bytes);
        publish(reconnector, connection);
        reconnector->calls->declare(reconnector->owner);
        tell(reconnector, GPUMEM_EVENT_DAEMON_BACK);
        return 0;
}

/* The caller has the lock, which is dropped meanwhile. */
static int connect_as_one(struct reconnector *reconnector)
{
        uint64_t attempt = reconnector->n_attempts;
        int r;

        if (reconnector->connecting) {
                while (reconnector->lost && reconnector->n_attempts == attempt)
                        pthread_cond_wait(&reconnector->news, &reconnector->lock);
                if (!reconnector->lost)
                        return 0;
                last_error_set(reconnector->last_result, reconnector->last_text);
                return reconnector->last_result;
        }
        reconnector->connecting = true;
        pthread_mutex_unlock(&reconnector->lock);
        r = connect_again(reconnector);
        pthread_mutex_lock(&reconnector->lock);
        reconnector->last_result = r;
        (void)snprintf(reconnector->last_text, sizeof(reconnector->last_text), "%s",
                       last_error_reason(r));
        reconnector->connecting = false;
        reconnector->n_attempts++;
        pthread_cond_broadcast(&reconnector->news);
        return r;
}

int reconnect_acquire(struct reconnector *reconnector, struct connection **ret_connection)
{
        int r = 0;

        pthread_mutex_lock(&reconnector->lock);
        if (reconnector->lost)
                r = connect_as_one(reconnector);
        if (!r)
                *ret_connection = connection_ref(reconnector->connection);
        pthread_mutex_unlock(&reconnector->lock);
        return r;
}

struct connection *reconnect_present(struct reconnector *reconnector)
{
        struct connection *connection = NULL;

        pthread_mutex_lock(&reconnector->lock);
        if (!reconnector->lost && reconnector->connection)
                connection = connection_ref(reconnector->connection);
        pthread_mutex_unlock(&reconnector->lock);
        return connection;
}

static void lose(struct reconnector *reconnector, const struct connection *connection)
{
        bool is_news;

        pthread_mutex_lock(&reconnector->lock);
        is_news = reconnector->connection == connection && !reconnector->lost;
        if (is_news)
                reconnector->lost = true;
        pthread_mutex_unlock(&reconnector->lock);
        if (is_news)
                tell(reconnector, GPUMEM_EVENT_DAEMON_LOST);
}

void reconnect_release(struct reconnector *reconnector, struct connection *take_connection,
                       int result)
{
        if (result == GPUMEM_E_DISCONNECTED)
                lose(reconnector, take_connection);
        connection_unref(take_connection);
}

void reconnect_pause(struct reconnector *reconnector, uint32_t ms)
{
        struct timespec until = clock_after_ms(ms);
        int r = 0;

        pthread_mutex_lock(&reconnector->lock);
        while (reconnector->lost && r == 0)
                r = pthread_cond_timedwait(&reconnector->news, &reconnector->lock, &until);
        pthread_mutex_unlock(&reconnector->lock);
}

void reconnect_renew(struct reconnector *reconnector)
{
        struct connection *connection;
        bool is_over;

        if (reconnect_acquire(reconnector, &connection))
                return;
        is_over = link_is_over(connection->link);
        reconnect_release(reconnector, connection, is_over ? GPUMEM_E_DISCONNECTED : 0);
        if (is_over && reconnect_acquire(reconnector, &connection) == 0)
                reconnect_release(reconnector, connection, 0);
}

bool reconnect_may_repeat(const struct connection *connection, int result)
{
        return result == GPUMEM_E_DISCONNECTED && !link_is_silent(connection->link);
}

int reconnect_call(struct reconnector *reconnector, struct frame *request, enum message_kind kind,
                   enum message_kind reply_kind, struct frame *ret_reply, struct fdset *ret_fds,
                   uint64_t *ret_serial)
{
        bool repeats = true;
        int r = 0;

        for (unsigned i = 0; i < 2 && repeats; i++) {
                struct connection *connection;

                r = reconnect_acquire(reconnector, &connection);
                if (r)
                        return r;
                r = link_call(connection->link, request, kind, reply_kind, ret_reply, ret_fds);
                if (!r && ret_serial)
                        *ret_serial = connection->serial;
                repeats = reconnect_may_repeat(connection, r);
                reconnect_release(reconnector, connection, r);
        }
        return r;
}

int reconnect_call_on(struct reconnector *reconnector, uint64_t serial, struct frame *request,
                      enum message_kind kind, enum message_kind reply_kind, struct frame *ret_reply,
                      struct fdset *ret_fds)
{
        struct connection *connection;
        int r = reconnect_acquire(reconnector, &connection);

        if (r)
                return r;
        if (connection->serial == serial)
                r = link_call(connection->link, request, kind, reply_kind, ret_reply, ret_fds);
        else
                r = GPUMEM_E_OUTLIVED;
        reconnect_release(reconnector, connection, r);
        return r;
}

void reconnect_send(struct reconnector *reconnector, uint64_t serial, struct frame *frame,
                    enum message_kind kind)
{
        struct connection *connection = NULL;

        pthread_mutex_lock(&reconnector->lock);
        if (!reconnector->lost && reconnector->connection->serial == serial)
                connection = connection_ref(reconnector->connection);
        pthread_mutex_unlock(&reconnector->lock);
        if (connection)
                reconnect_release(reconnector, connection,
                                  link_send(connection->link, frame, kind));
}
