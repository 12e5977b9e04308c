/* SPDX-License-Identifier: Apache-2.0 */
/* How much requests cost of their tenant's rate limit (daemon/ratelimit/account.h). On the loop. */
#pragma once

#include "daemon/server/session/session.h"

/* A new connection: its HELLO is delayed, too, until the tenant's rate allows it. */
void rate_limit_begin(struct session *session);

/* Whether a request may be served now. If not, it has been refused, or its client has hung up. */
bool rate_limit_may_serve(struct session *session, const struct frame *frame);

/* For the session's transport: 0 if the tenant may ask again, else the time from which on it may. */
uint64_t rate_limit_hold_until(struct transport *transport);

/* A request to give back or end something that does not exist costs as much as any request. */
void rate_limit_note_vain(struct session *session, const struct frame *frame);

/* Charges a reply with that many rows, made from that many visited objects. The next request waits until
 * the rate allows it. */
void rate_limit_take_rows(struct session *session, uint64_t n_rows, uint64_t n_looks);

/* Charges a frame that is not a request. It is served; the next one may wait. */
void rate_limit_take(struct session *session);
