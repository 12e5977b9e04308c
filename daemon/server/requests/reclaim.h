/* SPDX-License-Identifier: Apache-2.0 */
/* RECLAIM: cached and idle blocks of some tenants, chosen by user or container, go back to the driver. The
 * reply says what these tenants still have. On the loop. */
#pragma once

#include "daemon/server/session/request_walk.h"

enum reclaim_state { RECLAIM_UNDER_WAY, RECLAIM_ANSWERED };

/* The last RECLAIM of a session, which owns this. A session has at most one under way. */
struct reclaim {
        enum reclaim_state state;
        uint32_t serial;
        bool is_again; /* the last one was for the same tenants: it is logged only if blocks were released */
        uint32_t uid;
        char container[252];
};

/* Releases the blocks that the session's last policy_release_all or policy_reclaim is about, in parts. `take_walk` is all
 * zero, and allocated before the policy is told: a call that the policy knows is answered. */
void reclaim_release(struct session *session, const struct frame *request, struct walk *take_walk);

/* Handler of dispatch.c. */
void reclaim_take(struct session *session, const struct frame *frame);

/* Returns whether the action answers a RECLAIM. If so, the reply has been sent. */
bool reclaim_answer(struct session *session, const struct action *action);
