/* SPDX-License-Identifier: Apache-2.0 */
/* LIMITS: a row for each limit in force that the session may see. On the loop. */
#pragma once

#include "daemon/server/session/session.h"

void list_limits_take(struct session *session, const struct frame *frame);
