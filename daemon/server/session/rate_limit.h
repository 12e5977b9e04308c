/* SPDX-License-Identifier: Apache-2.0 */
/* What requests take from their tenant's token bucket (daemon/ratelimit/account.h). On the loop. */
#pragma once

#include "daemon/server/session/session.h"

/* The connection is there: its HELLO waits, too, until its tenant may ask. */
void rate_limit_begin(struct session *session);

/* Whether a request may be served now; if not it has been refused, or nobody is left to answer. */
bool rate_limit_may_serve(struct session *session, const struct frame *frame);

/* For the session's transport: 0 when its tenant may ask again, else when that may be. */
uint64_t rate_limit_hold_until(struct transport *transport);

/* What gives something back, or ends something, that is not there costs as much as a request. */
void rate_limit_note_vain(struct session *session, const struct frame *frame);

/* For an answer of so many rows that were written for it, and things that were looked at: what follows it
 * waits until its tenant may ask again. */
void rate_limit_take_rows(struct session *session, uint64_t n_rows, uint64_t n_looks);

/* For a frame that is no request. It is served, and what follows it waits. */
void rate_limit_take(struct session *session);
