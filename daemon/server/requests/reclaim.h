/* SPDX-License-Identifier: Apache-2.0 */
/* RECLAIM: what tenants of a user, or in a container, have cached or idle goes back to the driver, and the answer
 * says what they still have. On the loop. */
#pragma once

#include "daemon/server/session/session.h"

enum reclaim_state { RECLAIM_UNDER_WAY, RECLAIM_ANSWERED };

/* The last one of a session, which owns it; one at a time is under way. */
struct reclaim {
        enum reclaim_state state;
        uint32_t serial;
        uint32_t uid;
        char container[252];
};

/* Handler of dispatch.c. */
void reclaim_take(struct session *session, const struct frame *frame);

/* Whether the action is an answer to it, which is sent then. */
bool reclaim_answer(struct session *session, const struct action *action);
