/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers of the clients' messages, one for each. On the loop. */
#pragma once

#include "daemon/server/session/session.h"

/* Takes one frame of a session in HELLO or READY: the server's take_frame. */
void dispatch_frame(struct session *session, int r, const struct frame *frame);
