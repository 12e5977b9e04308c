/* SPDX-License-Identifier: Apache-2.0 */
/* Audit log, level info: a line for each act of an administrator, each grant to a user, and each refusal,
 * with the peer and the result. "audit: uid 0, process 12 (gpumemctl), admin socket: WHAT". Refusals of one
 * tenant are limited to the rate of base/log.h, since a tenant can cause as many as it likes. On the loop. */
#pragma once

#include "daemon/server/session/session.h"

void audit_log_act(const struct session *session, const char *format, ...) PRINTF_LIKE(2, 3);

/* Whether the account's user, or the container that root runs, may cause a line now; says how many were left out. */
bool audit_log_may(struct account *account, enum log_level level, uint64_t now_ns);

/* As audit_log_act, of what any client may do as often as it likes. */
void audit_log_client_act(struct session *session, const char *format, ...) PRINTF_LIKE(2, 3);

/* An act by a signal, whose sender is unknown. */
void audit_log_signal(const char *signal, const char *what);

/* `text` is the text of the ERROR to the client. */
void audit_log_refusal(struct session *session, const char *text);

/* Of a LEASE. The text is made only of what is logged. */
void audit_log_refused_lease(struct session *session, const struct message_refused_facts *facts);

/* A refused connection, at level warning. Without an account, the rate limit is one for all such
 * connections. */
void audit_log_turned_away(struct server *server, struct account *account, const struct peer *peer,
                           const char *text);
void audit_log_stranger(struct server *server, const char *text);
