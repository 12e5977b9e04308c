/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/wakes.h"

#include <sys/epoll.h>

#include "daemon/server/server.h"
#include "daemon/server/session/request_walk.h"
#include "daemon/server/session/session.h"
#include "tests/fuzz/epoll.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/peers.h"

/* As transport.c says. */
#define SEND_QUEUE_HIGH 64

static bool may_read(const struct transport *transport)
{
        return transport->send_queue.n < SEND_QUEUE_HIGH && !transport->send_queue.fds.n &&
               !transport->is_waiting;
}

/* What the transport knows is in its payer's list, or waits until its queue is shorter. */
static void check_task(const struct transport *transport)
{
        bool has_unread = transport->is_readable || frame_inbox_has_more(&transport->inbox);
        bool has_work = (has_unread && may_read(transport)) || transport->is_writable ||
                        (transport->has_hung_up && transport->watch.set);

        FUZZ_EXPECT(has_work || !transport->task.payer);
        FUZZ_EXPECT(!has_work || transport->task.payer == transport->owner.payer);
}

/* Of a peer that is not heard it is known that there is something to be read, or the end; and what waits for it is polled. */
static void check_unheard(const struct transport *transport)
{
        FUZZ_EXPECT(transport->is_readable);
        FUZZ_EXPECT(transport->has_hung_up || transport->watch.set);
        FUZZ_EXPECT(!transport->send_queue.n || transport->is_busy);
}

/* What it does not know it will be told. */
static void check_events(const struct transport *transport)
{
        uint32_t asked = epoll_asked(transport->fd), standing = 0;
        uint32_t known = epoll_untold(transport->fd);

        if (!transport_is_heard(transport))
                check_unheard(transport);
        if (!transport->watch.set)
                return;
        FUZZ_EXPECT(asked == (transport->watch.events | EPOLLET));
        FUZZ_EXPECT(asked & EPOLLIN && asked & EPOLLRDHUP);
        if (transport->send_queue.n)
                FUZZ_EXPECT(transport->is_busy || asked & EPOLLOUT);
        known |= transport->is_readable ? EPOLLIN : 0;
        known |= transport->is_writable ? EPOLLOUT : 0;
        FUZZ_EXPECT(peers_find_ready(transport->fd, &standing));
        FUZZ_EXPECT(!(standing & EPOLLIN) || known & EPOLLIN);
        if (standing & EPOLLOUT && transport->send_queue.n && !transport->is_busy)
                FUZZ_EXPECT(known & EPOLLOUT);
}

static void check_transport(const struct transport *transport)
{
        bool is_looked_at = transport->polled.list != NULL;

        if (transport->closing) {
                FUZZ_EXPECT(is_looked_at == (transport->fd >= 0));
                FUZZ_EXPECT(!transport->watch.set && !transport->task.payer);
                return;
        }
        FUZZ_EXPECT(is_looked_at || !transport->is_busy);
        check_task(transport);
        check_events(transport);
}

/* From its HELLO on it waits for the end of its process until it has seen it. */
static void check_process(const struct session *session)
{
        bool waits = session->state == SESSION_READY ||
                     (session->state == SESSION_LEFT && !session->process_is_over);
        uint32_t standing = 0;

        if (session->state == SESSION_ORPHANED || session->state == SESSION_CLOSING)
                FUZZ_EXPECT(!session->process_watch.set && !session->process_end.payer);
        if (!waits)
                return;
        FUZZ_EXPECT(session->process_watch.set);
        FUZZ_EXPECT(epoll_asked(session->peer.pidfd) & EPOLLIN);
        FUZZ_EXPECT(peers_find_ready(session->peer.pidfd, &standing));
        if (standing && !session->process_end.payer)
                FUZZ_EXPECT(epoll_untold(session->peer.pidfd));
}

/* What the policy is still to be told of its end is in its payer's list. */
static void check_end(const struct session *session)
{
        bool is_over = session->connection_is_over || session->process_is_over;
        bool are_both = session->connection_is_over && session->process_is_over;
        const struct walk *walk;
        bool has_more = session_has_client(session) &&
                        (are_both || (is_over && !session->is_first_told));

        FUZZ_EXPECT(has_more == (session->client_end.payer != NULL));
        FUZZ_EXPECT(session->transport.is_waiting == !LIST_EMPTY(&session->walks));
        LIST_FOREACH (walk, &session->walks, link)
                FUZZ_EXPECT(walk->task.payer);
}

void wakes_check(struct server *server)
{
        struct polling *polling = &server->polling;
        struct session *session;

        if (server_is_stopping(server))
                return;
        LIST_FOREACH (session, &server->sessions, link) {
                check_transport(&session->transport);
                check_process(session);
                check_end(session);
        }
        FUZZ_EXPECT(!polling->rounds.n || polling->turn.payer ||
                    uv_is_active((uv_handle_t *)&polling->timer));
        FUZZ_EXPECT(TAILQ_EMPTY(polling->rounds.now) || polling->turn.payer);
        FUZZ_EXPECT(!server->is_dirty || server->serving.payer);
}

void wakes_expect_all_served(const struct server *server)
{
        const struct polling *polling = &server->polling;
        const struct session *session;

        LIST_FOREACH (session, &server->sessions, link) {
                const struct transport *transport = &session->transport;

                if (transport->closing)
                        continue;
                FUZZ_EXPECT(!transport->send_queue.n && !transport->is_busy);
                for (unsigned i = 0; i < N_PEERS; i++)
                        FUZZ_EXPECT(peers.processes[i].fd != transport->fd ||
                                    !peers.processes[i].n_said);
        }
        FUZZ_EXPECT(!polling->rounds.n && !uv_is_active((const uv_handle_t *)&polling->timer));
        FUZZ_EXPECT(!polling->turn.payer && TAILQ_EMPTY(&server->jobs.finished));
        FUZZ_EXPECT(!server->scheduler.everyone.n_with_work);
}
