#include "daemon/server/session/kin.h"

#include "base/log.h"
#include "gpumem.h"

/* Each of them may keep a charge, and a pidfd, until the process has ended. */
#define SESSIONS_A_PROCESS 256

/* Before Linux 6.9 the number is the pid. One that is used again is no matter: its earlier process is
 * over, and so is what that was charged. */
static bool is_of(const struct session *session, const struct peer *peer)
{
        return peer->process && session->peer.process == peer->process &&
               session->peer.uid == peer->uid;
}

static bool are_kin(const struct session *one, const struct session *other)
{
        return one != other && is_of(one, &other->peer);
}

int kin_may_join(const struct server *server, const struct peer *peer)
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

/* A process may have left several: one for each of its clients. The right one is charged as much as
 * is held now, unless some was freed meanwhile; then the last one will do. */
static struct session *find_left(struct session *session)
{
        struct session *kin, *found = NULL;

        LIST_FOREACH (kin, &session->server->sessions, link) {
                if (kin->state != SESSION_LEFT || !are_kin(kin, session))
                        continue;
                if (charged_bytes(kin) == session->n_held_bytes)
                        return kin;
                if (!found)
                        found = kin;
        }
        return found;
}

void kin_come_back(struct session *session, uint64_t n_held_bytes)
{
        struct session *kin;

        /* The loop may come to the end of a connection after the HELLO of the next. */
        LIST_FOREACH (kin, &session->server->sessions, link) {
                if (kin->state == SESSION_READY && are_kin(kin, session))
                        transport_catch_up(&kin->transport);
        }
        session->succeeds = true;
        session->n_held_bytes = n_held_bytes;
        if (!n_held_bytes)
                kin_succeed(session);
}

void kin_succeed(struct session *session)
{
        struct session *kin = session->succeeds ? find_left(session) : NULL;

        session->succeeds = false;
        if (!kin)
                return;
        log_debug("client %d (%s) is back", (int)session->peer.pid, session->program);
        session_end_process(kin);
}
