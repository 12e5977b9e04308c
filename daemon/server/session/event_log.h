/* SPDX-License-Identifier: Apache-2.0 */
/* Notes events, which the daemon remembers (daemon/policy/report/event_history.h). On the loop. */
#pragma once

#include "daemon/policy/report/event_history.h"
#include "daemon/server/session/session.h"

/* Before any of the following. */
int event_log_open(struct server *server);
void event_log_close(struct server *server);

/* What befell a client, in a pool or in none (PROTO_ALL_POOLS). `text` may be NULL. */
void event_log_note(const struct session *session, enum listed_event what, uint32_t pool,
                    uint64_t n_bytes, const char *text);

/* A LEASE that was refused, and another request. */
void event_log_note_refusal(const struct session *session, uint32_t pool, uint64_t n_bytes,
                            uint32_t code, enum proto_refused reason, const char *text);
void event_log_note_denial(const struct session *session, uint32_t code, const char *text);

/* A connection that became no session; without an account its peer is not known. */
void event_log_note_stranger(struct server *server, const struct account *account,
                             const struct peer *peer, const char *text);

/* What every client may know. */
void event_log_note_node(struct server *server, enum listed_event what, uint32_t pool,
                         const char *format, ...) PRINTF_LIKE(4, 5);

/* The client is no more, or only its memory is. */
void event_log_note_left(const struct session *session, enum listed_event what, const char *text);
