/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers of dispatch.c for messages about shared blocks. On the loop. */
#pragma once

#include "daemon/server/session/session.h"

void share_requests_share(struct session *session, const struct frame *frame);
void share_requests_share_kept(struct session *session, const struct frame *frame);
void share_requests_attach(struct session *session, const struct frame *frame);
void share_requests_detach(struct session *session, const struct frame *frame);
void share_requests_unshare(struct session *session, const struct frame *frame);
