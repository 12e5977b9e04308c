/* SPDX-License-Identifier: Apache-2.0 */
/* SET_LIMITS: clients change limits. On the loop. */
#pragma once

#include "daemon/server/session/session.h"

void set_limits_take(struct session *session, const struct frame *frame);
