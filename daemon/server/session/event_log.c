/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/session/event_log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "daemon/policy/report/listing.h"
#include "gpumem.h"
#include "proto/listing.h"

static void on_revoked(void *argument, const struct client *client, uint32_t pool, uint64_t n_bytes)
{
        (void)argument;
        event_log_note(client_owner(client), LISTED_EVENT_REVOKED, pool, n_bytes, NULL);
}

/* Pinned memory is expensive to register, so a working process keeps it registered. */
static void on_late(void *argument, const struct client *client, uint32_t pool, uint64_t n_bytes)
{
        const struct session *session = client_owner(client);
        bool is_pinned = session->server->pools[pool].row.kind == GPUMEM_PINNED;

        (void)argument;
        event_log_note(
                session, LISTED_EVENT_LATE, pool, n_bytes,
                is_pinned ? "the process keeps it registered: until it calls gpumem_flush, ends, "
                            "or needs it again"
                          : "the process does not answer: is it stopped, or does it hang?");
}

/* Events are numbered by microseconds since 1970. Numbers so tell the time, and no later run of the daemon
 * reuses one, since a run has fewer events than microseconds. */
static uint64_t number_now(void)
{
        struct timespec now;

        (void)clock_gettime(CLOCK_REALTIME, &now);
        return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

int event_log_open(struct server *server)
{
        const struct policy_witness witness = {.revoked = on_revoked, .unresponsive = on_late};
        int r = event_history_new(EVENT_HISTORY_ROWS, number_now(), &server->history);

        if (!r)
                policy_set_witness(server->policy, &witness);
        return r;
}

void event_log_close(struct server *server)
{
        server->history = event_history_free(server->history);
}

static struct noted_event describe(const struct session *session, enum listed_event what)
{
        return (struct noted_event){
                .number = number_now(),
                .what = what,
                .owner = session->account->payer.owner,
                .pid = (uint32_t)session->peer.pid,
                .pool = PROTO_ALL_POOLS,
                .program = session->name,
        };
}

/* Before HELLO the client has no tenant yet, but its account has the tenant's name. */
static void note(const struct session *session, const struct noted_event *event)
{
        struct tenant_key key = {.uid = session->peer.uid};
        const struct tenant_key *tenant = &key;

        if (session_has_client(session))
                tenant = client_tenant_key(session->client);
        else
                memcpy(key.realm, session->account->realm, sizeof(key.realm));
        event_history_note(session->server->history, tenant, event, server_now_ns(session->server));
}

void event_log_note(const struct session *session, enum listed_event what, uint32_t pool,
                    uint64_t n_bytes, const char *text)
{
        struct noted_event event = describe(session, what);

        event.pool = pool;
        event.n_bytes = n_bytes;
        event.text = text;
        note(session, &event);
}

void event_log_note_grant(struct session *session, uint32_t pool, uint64_t n_bytes)
{
        struct noted_event event = describe(session, LISTED_EVENT_GRANTED);

        event.pool = pool;
        event.n_bytes = n_bytes;
        event.own = &session->grants_row;
        note(session, &event);
}

/* What one client was refused must not hide why another was. */
static struct noted_event describe_refusal(const struct session *session)
{
        struct noted_event event = describe(session, LISTED_EVENT_REFUSED);

        event.client = session_has_client(session) ? client_number(session->client) : 0;
        return event;
}

void event_log_note_refusal(const struct session *session,
                            const struct message_refused_facts *facts)
{
        struct noted_event event = describe_refusal(session);

        event.pool = facts->pool;
        event.n_bytes = facts->n_bytes;
        event.code = facts->code;
        event.reason = facts->reason;
        event.refused = facts;
        note(session, &event);
}

void event_log_note_failure(const struct session *session, const struct message_failed *failed)
{
        struct noted_event event = describe_refusal(session);

        if (failed->pool < session->server->n_pools)
                event.pool = failed->pool;
        event.n_bytes = failed->n_bytes;
        event.code = failed->code;
        event.reason = PROTO_REFUSED_OTHERWISE;
        event.text = failed->text;
        note(session, &event);
}

void event_log_note_denial(const struct session *session, uint32_t code, const char *text)
{
        struct noted_event event = describe(session, LISTED_EVENT_DENIED);

        event.code = code;
        event.text = text;
        note(session, &event);
}

void event_log_note_stranger(struct server *server, const struct account *account,
                             const struct peer *peer, const char *text)
{
        struct tenant_key key = {.uid = peer ? peer->uid : LISTING_NOBODY};
        const struct noted_event event = {.number = number_now(),
                                          .what = LISTED_EVENT_TURNED_AWAY,
                                          .owner = account ? account->payer.owner : key.uid,
                                          .pid = peer ? (uint32_t)peer->pid : 0,
                                          .pool = PROTO_ALL_POOLS,
                                          .text = text};

        if (account)
                memcpy(key.realm, account->realm, sizeof(key.realm));
        event_history_note(server->history, &key, &event, server_now_ns(server));
}

void event_log_note_node(struct server *server, enum listed_event what, uint32_t pool,
                         const char *format, ...)
{
        char text[EVENT_HISTORY_TEXT_MAX];
        const struct noted_event event = {
                .number = number_now(), .what = what, .pool = pool, .text = text};
        va_list arguments;

        va_start(arguments, format);
        (void)vsnprintf(text, sizeof(text), format, arguments);
        va_end(arguments);
        event_history_note(server->history, NULL, &event, server_now_ns(server));
}

void event_log_note_left(const struct session *session, enum listed_event what, const char *text)
{
        uint64_t n_bytes = 0;

        for (uint32_t pool = 0; pool < session->server->n_pools; pool++)
                n_bytes += client_charged(session->client, pool);
        if (n_bytes || what != LISTED_EVENT_LINGERING)
                event_log_note(session, what, PROTO_ALL_POOLS, n_bytes, text);
}
