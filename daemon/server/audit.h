/* Who did what, and what came of it: a line of the log for each act of an administrator's, each grant to another
 * user, and each refusal, at level info. "audit: uid 0, process 12 (gpumemctl), admin socket: WHAT". Of what
 * one tenant is refused, as often as it likes, so many lines a second as base/log.h says. On the loop. */
#pragma once

#include "daemon/server/session.h"

void audit_act(const struct session *session, const char *format, ...) PRINTF_LIKE(2, 3);

/* `text` is what the client is told. */
void audit_refusal(struct session *session, const char *text);
