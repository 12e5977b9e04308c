/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/session/process_sessions.h"

#include "base/log.h"
#include "gpumem.h"

/* Each session may keep a charge, and a pidfd, until the process has ended. */
#define SESSIONS_A_PROCESS 256

/* Before Linux 6.9 the id is the pid. A reused pid does no harm: the earlier process has ended, and so have
 * its charges. */
static bool is_of(const struct session *session, const struct peer *peer)
{
        return peer->process && session->peer.process == peer->process &&
               session->peer.uid == peer->uid;
}

static bool are_of_one_process(const struct session *one, const struct session *other)
{
        return one != other && is_of(one, &other->peer);
}

int process_sessions_may_join(const struct server *server, const struct peer *peer)
{
        const struct session *session;
        unsigned n = 0;

        LIST_FOREACH (session, &server->sessions, link)
                n += is_of(session, peer);
        return n < SESSIONS_A_PROCESS ? 0 : GPUMEM_E_TOO_MANY;
}

static uint64_t charged_bytes(const struct session *session)
{
        uint64_t n_bytes = 0;

        for (uint32_t pool = 0; pool < session->server->n_pools; pool++)
                n_bytes += client_charged(session->client, pool);
        return n_bytes;
}

/* Finds the session that this one continues. A process leaves one session for each of its clients. The
 * right one is charged exactly what is held now, unless memory was freed meanwhile; then the last one found
 * is taken. */
static struct session *find_left(struct session *session)
{
        struct session *other, *found = NULL;

        LIST_FOREACH (other, &session->server->sessions, link) {
                if (other->state != SESSION_LEFT || !are_of_one_process(other, session))
                        continue;
                if (charged_bytes(other) == session->n_held_bytes)
                        return other;
                if (!found)
                        found = other;
        }
        return found;
}

void process_sessions_reconnect(struct session *session, uint64_t n_held_bytes)
{
        struct session *other;

        /* The loop may see the end of a connection after the HELLO of the next one. */
        LIST_FOREACH (other, &session->server->sessions, link) {
                if (other->state == SESSION_READY && are_of_one_process(other, session))
                        transport_catch_up(&other->transport);
        }
        session->takes_over = true;
        session->n_held_bytes = n_held_bytes;
        if (!n_held_bytes)
                process_sessions_take_over(session);
}

void process_sessions_take_over(struct session *session)
{
        struct session *other = session->takes_over ? find_left(session) : NULL;

        session->takes_over = false;
        if (!other)
                return;
        log_debug("client %d (%s) has reconnected", (int)session->peer.pid, session->program);
        session_end_process(other);
}
