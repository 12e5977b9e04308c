/* SPDX-License-Identifier: Apache-2.0 */
/* Which peer did what, and what came of it: a line of the log for each act of an administrator's, each grant to a
 * user, and each refusal, at level info. "audit: uid 0, process 12 (gpumemctl), admin socket: WHAT". Of what
 * one tenant is refused, as often as it likes, so many lines a second as base/log.h says. On the loop. */
#pragma once

#include "daemon/server/session/session.h"

void audit_log_act(const struct session *session, const char *format, ...) PRINTF_LIKE(2, 3);

/* By a signal, whose sender is not known. */
void audit_log_signal(const char *signal, const char *what);

/* `text` is what the client is told. */
void audit_log_refusal(struct session *session, const char *text);

/* A connection that was not taken in, at level warning. Without an account, so many lines a second of all. */
void audit_log_turned_away(struct server *server, struct account *account, const struct peer *peer,
                           const char *text);
void audit_log_stranger(struct server *server, const char *text);
