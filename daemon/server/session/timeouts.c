/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/session/timeouts.h"

#include "base/err.h"
#include "daemon/server/session/event_log.h"
#include "daemon/server/session/session.h"

/* Interval between checks of the watched sessions. */
#define LOOK_MS 250

/* Ends the session if HELLO is late. HELLO may have arrived in time while the daemon was stopped or its user was not
 * served, so what the socket has is read first. */
static void demand_hello(struct session *session)
{
        uint64_t now_ns = server_now_ns(session->server);

        if (now_ns - session->since_ns < SESSION_TIMEOUT_MS * NS_PER_MS)
                return;
        if (LIST_EMPTY(&session->walks) && !transport_has_unread(&session->transport))
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

/* The node pays: who has nothing to say, or does not listen, pays for nothing else. */
static void look_at_some(struct task *task)
{
        struct server *server = CONTAINER_OF(task, struct server, timeouts.task);
        struct numbered_walk *walk = &server->timeouts.walk;
        struct session *session;

        numbered_go_on(walk, PART_ITEMS);
        while ((session = numbered_next(&server->sessions_by_number, walk))) {
                enum session_state state = session->state;

                server->timeouts.is_any_left |= look_at(session);
                if (session->state != state)
                        numbered_end_part(walk);
        }
        if (!numbered_is_over(&server->sessions_by_number, walk))
                payer_put(&server->scheduler.node, task);
        else if (server->timeouts.is_any_left)
                timeouts_watch(server);
}

static void on_timeouts_timer(uv_timer_t *timer)
{
        struct server *server = CONTAINER_OF(timer, struct server, timeouts.timer);

        server->timeouts.is_any_left = false;
        server->timeouts.walk.next = 0;
        server->timeouts.task.step = look_at_some;
        payer_put(&server->scheduler.node, &server->timeouts.task);
}

/* A check under way goes on to the end first. */
void timeouts_watch(struct server *server)
{
        uv_timer_t *timer = &server->timeouts.timer;

        server->timeouts.is_any_left = true;
        if (!server->stopping && !uv_is_active((uv_handle_t *)timer) &&
            !server->timeouts.task.payer)
                (void)uv_timer_start(timer, on_timeouts_timer, LOOK_MS, 0);
}
