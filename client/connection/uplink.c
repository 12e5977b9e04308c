#include "client/connection/uplink.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/thread.h"
#include "client/runtime/refusal.h"
#include "gpumem.h"

static int copy_text(const char *text, char **ret_copy)
{
        *ret_copy = text ? strdup(text) : NULL;
        return text && !*ret_copy ? -ENOMEM : 0;
}

int uplink_init(struct uplink *uplink, const char *socket_path, const char *program,
                struct events *events, const struct uplink_owner *calls, void *owner)
{
        struct link_hello hello = {.program = program, .notice = calls->notice, .owner = owner};
        int r;

        *uplink = (struct uplink){.events = events, .calls = calls, .owner = owner};
        pthread_mutex_init(&uplink->lock, NULL);
        condition_init_monotonic(&uplink->news);
        r = copy_text(socket_path, &uplink->socket_path);
        if (!r)
                r = copy_text(program, &uplink->program);
        if (!r)
                r = connection_new(socket_path, &hello, 1, &uplink->connection);
        return r;
}

void uplink_be_deaf(struct uplink *uplink)
{
        if (uplink->calls && uplink->connection)
                link_be_deaf(uplink->connection->link);
}

void uplink_deinit(struct uplink *uplink)
{
        if (!uplink->calls)
                return;
        uplink->connection = connection_unref(uplink->connection);
        free(uplink->socket_path);
        free(uplink->program);
        pthread_cond_destroy(&uplink->news);
        pthread_mutex_destroy(&uplink->lock);
        uplink->calls = NULL;
}

static void tell(struct uplink *uplink, enum gpumem_event_kind kind)
{
        struct gpumem_event event = {.kind = kind};

        events_note(uplink->events, &event);
}

/* The last one's reference goes when nobody can come by it any more. */
static void publish(struct uplink *uplink, struct connection *take_connection)
{
        struct connection *last;

        pthread_mutex_lock(&uplink->lock);
        last = uplink->connection;
        uplink->connection = take_connection;
        uplink->lost = false;
        pthread_cond_broadcast(&uplink->news);
        pthread_mutex_unlock(&uplink->lock);
        connection_unref(last);
}

/* A daemon that takes no more connections now may take one later: for a client that had one it is away, and a caller
 * that waits for it tries again. The caller still hears what the daemon said. */
static int as_away(int r)
{
        char text[GPUMEM_TEXT_BYTES];

        if (r != GPUMEM_E_TOO_MANY)
                return r;
        (void)snprintf(text, sizeof(text), "%s", refusal_heard(r));
        refusal_hear(GPUMEM_E_DISCONNECTED, text);
        return GPUMEM_E_DISCONNECTED;
}

/* Nobody else connects, so nobody else changes uplink->connection meanwhile. */
static int reconnect(struct uplink *uplink)
{
        const struct connection *last = uplink->connection;
        struct link_hello hello = {.program = uplink->program,
                                   .notice = uplink->calls->notice,
                                   .owner = uplink->owner,
                                   .incarnation = last->incarnation};
        struct connection *connection;
        int r;

        hello.n_held_bytes = uplink->calls->leave(uplink->owner);
        r = as_away(connection_new(uplink->socket_path, &hello, last->serial + 1, &connection));
        if (r)
                return r;
        r = uplink->calls->meet(uplink->owner, connection);
        if (r) {
                connection_unref(connection);
                return r;
        }
        log_debug("connected anew; %llu bytes of the last daemon's blocks are held",
                  (unsigned long long)hello.n_held_bytes);
        publish(uplink, connection);
        uplink->calls->declare(uplink->owner);
        tell(uplink, GPUMEM_EVENT_DAEMON_BACK);
        return 0;
}

/* The caller has the lock, which is given up meanwhile. */
static int connect_as_one(struct uplink *uplink)
{
        uint64_t attempt = uplink->n_attempts;
        int r;

        if (uplink->connecting) {
                while (uplink->lost && uplink->n_attempts == attempt)
                        pthread_cond_wait(&uplink->news, &uplink->lock);
                if (!uplink->lost)
                        return 0;
                refusal_hear(uplink->last_result, uplink->last_text);
                return uplink->last_result;
        }
        uplink->connecting = true;
        pthread_mutex_unlock(&uplink->lock);
        r = reconnect(uplink);
        pthread_mutex_lock(&uplink->lock);
        uplink->last_result = r;
        (void)snprintf(uplink->last_text, sizeof(uplink->last_text), "%s", refusal_heard(r));
        uplink->connecting = false;
        uplink->n_attempts++;
        pthread_cond_broadcast(&uplink->news);
        return r;
}

int uplink_acquire(struct uplink *uplink, struct connection **ret_connection)
{
        int r = 0;

        pthread_mutex_lock(&uplink->lock);
        if (uplink->lost)
                r = connect_as_one(uplink);
        if (!r)
                *ret_connection = connection_ref(uplink->connection);
        pthread_mutex_unlock(&uplink->lock);
        return r;
}

struct connection *uplink_present(struct uplink *uplink)
{
        struct connection *connection = NULL;

        pthread_mutex_lock(&uplink->lock);
        if (!uplink->lost && uplink->connection)
                connection = connection_ref(uplink->connection);
        pthread_mutex_unlock(&uplink->lock);
        return connection;
}

static void lose(struct uplink *uplink, const struct connection *connection)
{
        bool is_news;

        pthread_mutex_lock(&uplink->lock);
        is_news = uplink->connection == connection && !uplink->lost;
        if (is_news)
                uplink->lost = true;
        pthread_mutex_unlock(&uplink->lock);
        if (is_news)
                tell(uplink, GPUMEM_EVENT_DAEMON_LOST);
}

void uplink_release(struct uplink *uplink, struct connection *take_connection, int result)
{
        if (result == GPUMEM_E_DISCONNECTED)
                lose(uplink, take_connection);
        connection_unref(take_connection);
}

void uplink_pause(struct uplink *uplink, uint32_t ms)
{
        struct timespec until = clock_after_ms(ms);
        int r = 0;

        pthread_mutex_lock(&uplink->lock);
        while (uplink->lost && r == 0)
                r = pthread_cond_timedwait(&uplink->news, &uplink->lock, &until);
        pthread_mutex_unlock(&uplink->lock);
}

void uplink_renew(struct uplink *uplink)
{
        struct connection *connection;
        bool is_over;

        if (uplink_acquire(uplink, &connection))
                return;
        is_over = link_is_over(connection->link);
        uplink_release(uplink, connection, is_over ? GPUMEM_E_DISCONNECTED : 0);
        if (is_over && uplink_acquire(uplink, &connection) == 0)
                uplink_release(uplink, connection, 0);
}

bool uplink_may_repeat(const struct connection *connection, int result)
{
        return result == GPUMEM_E_DISCONNECTED && !link_is_silent(connection->link);
}

int uplink_call(struct uplink *uplink, struct frame *request, enum message_kind kind,
                enum message_kind reply_kind, struct frame *ret_reply, struct fdset *ret_fds,
                uint64_t *ret_serial)
{
        bool repeats = true;
        int r = 0;

        for (unsigned i = 0; i < 2 && repeats; i++) {
                struct connection *connection;

                r = uplink_acquire(uplink, &connection);
                if (r)
                        return r;
                r = link_call(connection->link, request, kind, reply_kind, ret_reply, ret_fds);
                if (!r && ret_serial)
                        *ret_serial = connection->serial;
                repeats = uplink_may_repeat(connection, r);
                uplink_release(uplink, connection, r);
        }
        return r;
}

int uplink_call_on(struct uplink *uplink, uint64_t serial, struct frame *request,
                   enum message_kind kind, enum message_kind reply_kind, struct frame *ret_reply,
                   struct fdset *ret_fds)
{
        struct connection *connection;
        int r = uplink_acquire(uplink, &connection);

        if (r)
                return r;
        if (connection->serial == serial)
                r = link_call(connection->link, request, kind, reply_kind, ret_reply, ret_fds);
        else
                r = GPUMEM_E_OUTLIVED;
        uplink_release(uplink, connection, r);
        return r;
}

void uplink_send(struct uplink *uplink, uint64_t serial, struct frame *frame,
                 enum message_kind kind)
{
        struct connection *connection = NULL;

        pthread_mutex_lock(&uplink->lock);
        if (!uplink->lost && uplink->connection->serial == serial)
                connection = connection_ref(uplink->connection);
        pthread_mutex_unlock(&uplink->lock);
        if (connection)
                uplink_release(uplink, connection, link_send(connection->link, frame, kind));
}
