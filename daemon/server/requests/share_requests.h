/* What clients may ask about shared blocks, one handler a message: dispatch.c sends frames of a
 * session in READY here. The loop's thread. */
#pragma once

#include "daemon/server/session/session.h"

void share_requests_share(struct session *session, const struct frame *frame);
void share_requests_attach(struct session *session, const struct frame *frame);
void share_requests_detach(struct session *session, const struct frame *frame);
void share_requests_unshare(struct session *session, const struct frame *frame);
