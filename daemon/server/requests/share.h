/* What clients may ask about shared blocks, one handler a message: requests.c sends frames of a
 * session in READY here. The loop's thread. */
#pragma once

#include "daemon/server/session/session.h"

void session_take_share(struct session *session, const struct frame *frame);
void session_take_attach(struct session *session, const struct frame *frame);
void session_take_detach(struct session *session, const struct frame *frame);
void session_take_unshare(struct session *session, const struct frame *frame);
