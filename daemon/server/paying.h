/* What requests cost of their tenant's pace (daemon/policy/account.h). On the loop. */
#pragma once

#include "daemon/server/session.h"

/* Whether a request may be served now; if not it has been refused. */
bool paying_may_serve(struct session *session, const struct frame *frame);

/* For the session's transport: 0 when its tenant may ask again, else when that may be. */
uint64_t paying_hold_until(struct transport *transport);

/* It was answered by an error: what gives something back that is not there costs as much as a request. */
void paying_note_error(struct session *session, const struct frame *frame);
