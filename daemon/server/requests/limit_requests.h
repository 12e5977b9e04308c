/* Limits as clients ask for them, change them and are told of them. */
#pragma once

#include "daemon/server/session/session.h"

/* Requests LIMITS and SET_LIMITS. */
void limits_take_list(struct session *session, const struct frame *frame);
void limits_take_set(struct session *session, const struct frame *frame);
