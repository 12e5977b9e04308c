/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/session/timeouts.h"

#include "base/err.h"
#include "daemon/server/session/event_log.h"
#include "daemon/server/session/session.h"

/* Interval between checks of the watched sessions. */
#define LOOK_MS 250

/* Ends the session if HELLO is late. HELLO may have arrived in time while the daemon was stopped, so the
 * socket is read first. While the connection is held back, it is not read. */
static void demand_hello(struct session *session)
{
        uint64_t now_ns = server_now_ns(session->server);

        if (session->transport.held_until_ns)
                session->since_ns = now_ns;
        if (now_ns - session->since_ns < SESSION_TIMEOUT_MS * NS_PER_MS)
                return;
        transport_take(&session->transport);
        if (session->state == SESSION_HELLO)
                session_give_up(session, "no HELLO within 5 seconds");
}

/* A session that ends within this time is not noted as lingering: the driver needs time to free a killed
 * process's memory. */
#define LINGERS_MS 1000

static void tell_lingering(struct session *session)
{
        bool has_left = session->state == SESSION_LEFT;

        if (!has_left && session->state != SESSION_ORPHANED)
                session->lingers_since_ns = 0;
        if (!session->lingers_since_ns ||
            server_now_ns(session->server) - session->lingers_since_ns < LINGERS_MS * NS_PER_MS)
                return;
        session->lingers_since_ns = 0;
        event_log_note_left(session, LISTED_EVENT_LINGERING,
                            has_left ? "the connection has ended, the process has not"
                                     : "the process has ended, a child of it holds the connection");
}

/* Returns whether the session must be checked again. */
static bool look_at(struct session *session)
{
        if (session->state == SESSION_HELLO)
                demand_hello(session);
        else if (transport_is_stalled(&session->transport, SESSION_TIMEOUT_MS * NS_PER_MS))
                session_give_up(session, "replies not read for 5 seconds");
        tell_lingering(session);
        return session->state == SESSION_HELLO || session->lingers_since_ns ||
               (session->state != SESSION_CLOSING && session->transport.send_queue.n);
}

static void on_timeouts_timer(uv_timer_t *timer)
{
        struct server *server = CONTAINER_OF(timer, struct server, timeouts_timer);
        struct session *session, *next;
        bool is_any_left = false;

        for (session = LIST_FIRST(&server->sessions); session; session = next) {
                next = LIST_NEXT(session, link);
                is_any_left |= look_at(session);
        }
        if (is_any_left)
                timeouts_watch(server);
}

void timeouts_watch(struct server *server)
{
        if (!server->stopping && !uv_is_active((uv_handle_t *)&server->timeouts_timer))
                (void)uv_timer_start(&server->timeouts_timer, on_timeouts_timer, LOOK_MS, 0);
}
