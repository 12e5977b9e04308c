/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/session/process_sessions.h"

#include "base/log.h"
#include "gpumem.h"

static struct session *next_of(const struct session *session, struct process_member *member)
{
        if (member == &session->member)
                member = LIST_NEXT(member, link);
        return member ? session_of(member) : NULL;
}

/* A process without a number cannot be told from others. */
static struct session *first_other(const struct session *session)
{
        if (!session->process->key.number)
                return NULL;
        return next_of(session, LIST_FIRST(&session->process->members));
}

/* The other sessions of its process, the last one first. */
#define EACH_OTHER(other, session)                          \
        for (other = first_other(session); (other) != NULL; \
             other = next_of(session, LIST_NEXT(&(other)->member, link)))

/* In all pools. A process may have left hundreds of sessions, so the pools are not gone through for each. */
static uint64_t charged_bytes(const struct session *session)
{
        const struct usage *usage = client_usage(session->client);

        return usage->n[LIMIT_DEVICE_BYTES] + usage->n[LIMIT_PINNED_BYTES];
}

/* Finds the session that this one continues. A process leaves one session for each of its clients. The
 * right one is charged exactly what is held now, unless memory was freed meanwhile; then the last one found
 * is taken. */
static struct session *find_left(struct session *session)
{
        struct session *other, *found = NULL;

        EACH_OTHER(other, session)
        {
                if (other->state != SESSION_LEFT)
                        continue;
                if (charged_bytes(other) == session->n_held_bytes)
                        return other;
                if (!found)
                        found = other;
        }
        return found;
}

bool process_sessions_catch_up(const struct session *session, struct session *other)
{
        return other != session && other->process == session->process &&
               session->process->key.number && other->state == SESSION_READY &&
               transport_catch_up(&other->transport);
}

void process_sessions_reconnect(struct session *session, uint64_t n_held_bytes)
{
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
