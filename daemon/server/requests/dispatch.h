/* SPDX-License-Identifier: Apache-2.0 */
/* What clients may ask, one handler a message. On the loop. */
#pragma once

#include "daemon/server/session/session.h"

/* Takes one frame of a session in HELLO or READY: the server's take_frame. */
void dispatch_frame(struct session *session, int r, const struct frame *frame);
