/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/session/audit_log.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"
#include "daemon/server/session/event_log.h"
#include "proto/refusal_text.h"

static void write_line(const struct session *session, const char *what)
{
        log_info("audit: uid %u, process %d (%s)%s: %s", (unsigned)session->peer.uid,
                 (int)session->peer.pid, session->program,
                 session->way == SESSION_AS_ADMIN ? ", admin socket" : "", what);
}

void audit_log_act(const struct session *session, const char *format, ...)
{
        char what[400];
        va_list arguments;

        va_start(arguments, format);
        (void)vsnprintf(what, sizeof(what), format, arguments);
        va_end(arguments);
        write_line(session, what);
}

void audit_log_signal(const char *signal, const char *what)
{
        log_info("audit: %s: %s", signal, what);
}

bool audit_log_may(struct account *account, enum log_level level, uint64_t now_ns)
{
        char container[CGROUP_NAME_MAX], about[CGROUP_NAME_MAX + 48];

        cgroup_container_name(account->realm, container);
        (void)snprintf(about, sizeof(about), "uid %u%s%s", (unsigned)account->user->uid,
                       *container ? " in " : "", container);
        return log_may(account_log_limit(account), level, now_ns, about);
}

void audit_log_client_act(struct session *session, const char *format, ...)
{
        char what[400];
        va_list arguments;

        if (!audit_log_may(session->account, LOG_INFO, server_now_ns(session->server)))
                return;
        va_start(arguments, format);
        (void)vsnprintf(what, sizeof(what), format, arguments);
        va_end(arguments);
        write_line(session, what);
}

static bool may_log_refusal(struct session *session)
{
        return audit_log_may(session->account, LOG_INFO, server_now_ns(session->server));
}

void audit_log_refusal(struct session *session, const char *text)
{
        if (may_log_refusal(session))
                audit_log_act(session, "refused: %s", text);
}

void audit_log_refused_lease(struct session *session, const struct message_refused_facts *facts)
{
        char text[REFUSAL_TEXT_BYTES];

        if (!may_log_refusal(session))
                return;
        refusal_text(facts, text);
        audit_log_act(session, "refused: %s", text);
}

void audit_log_turned_away(struct server *server, struct account *account, const struct peer *peer,
                           const char *text)
{
        event_log_note_stranger(server, account, peer, text);
        if (account ? audit_log_may(account, LOG_WARNING, server_now_ns(server))
                    : server_may_complain(server))
                log_warning("audit: uid %u, process %d (?): refused: %s", (unsigned)peer->uid,
                            (int)peer->pid, text);
}

void audit_log_stranger(struct server *server, const char *text)
{
        event_log_note_stranger(server, NULL, NULL, text);
        if (server_may_complain(server))
                log_warning("audit: uid ?, process ?: refused: %s", text);
}
