/* SPDX-License-Identifier: Apache-2.0 */
/* Notes events in the history that the daemon keeps (daemon/policy/report/event_history.h). On the loop. */
#pragma once

#include "daemon/policy/report/event_history.h"
#include "daemon/server/session/session.h"

/* Call it before the functions below. */
int event_log_open(struct server *server);
void event_log_close(struct server *server);

/* An event of a client, in a pool or in none (PROTO_ALL_POOLS). `text` may be NULL. */
void event_log_note(const struct session *session, enum listed_event what, uint32_t pool,
                    uint64_t n_bytes, const char *text);

/* A lease, which is what happens most. */
void event_log_note_grant(struct session *session, uint32_t pool, uint64_t n_bytes);

/* A refused LEASE, what the client's library refused to its program, and another refused request. */
void event_log_note_refusal(const struct session *session,
                            const struct message_refused_facts *facts);
void event_log_note_failure(const struct session *session, const struct message_failed *failed);
void event_log_note_denial(const struct session *session, uint32_t code, const char *text);

/* A connection that became no session. Without an account its peer is unknown. */
void event_log_note_stranger(struct server *server, const struct account *account,
                             const struct peer *peer, const char *text);

/* An event that every client may see. */
void event_log_note_node(struct server *server, enum listed_event what, uint32_t pool,
                         const char *format, ...) PRINTF_LIKE(4, 5);

/* The client is gone, and may still hold memory or may not any more. */
void event_log_note_left(const struct session *session, enum listed_event what, const char *text);
