/* SPDX-License-Identifier: Apache-2.0 */
/* Polls connections whose state the loop cannot report: the daemon waits for their peers, or holds their
 * requests back. Each step checks some of them, and all other connections are served in between. On the
 * loop. */
#pragma once

#include <uv.h>

#include "daemon/fairness/poll_rounds.h"
#include "daemon/server/scheduler/scheduler.h"

struct polling {
        struct poll_rounds rounds;
        uv_timer_t timer; /* until the next round */
        struct scheduler *scheduler;
        struct task turn; /* while a round is not over */
};

int polling_open(struct polling *polling, struct scheduler *scheduler,
                 enum poll_rounds_look (*look)(struct poll_rounds_member *member));

/* Also legal for a member that is watched already. The caller has set the member's time. */
void polling_watch(struct polling *polling, struct poll_rounds_member *member);
void polling_forget(struct polling *polling, struct poll_rounds_member *member);

/* Checks all members now, also before their time. */
void polling_look_at_all(struct polling *polling);

/* The handle is closed after the next loop iteration. */
void polling_close(struct polling *polling);
