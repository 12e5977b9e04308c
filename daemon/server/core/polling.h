/* SPDX-License-Identifier: Apache-2.0 */
/* Polls connections whose state the loop cannot report: the daemon waits for their peers, or holds their
 * requests back. Each loop iteration checks some of them, and serves all other connections in between. On
 * the loop. */
#pragma once

#include <uv.h>

#include "daemon/fairness/rounds.h"

struct polling {
        struct rounds rounds;
        uv_timer_t timer; /* between the starts of two rounds */
        uv_idle_t idle;   /* while a round is not over: the loop does not block */
};

int polling_open(struct polling *polling, uv_loop_t *loop,
                 enum rounds_look (*look)(struct rounds_member *member));

/* Also legal for a member that is watched already. */
void polling_watch(struct polling *polling, struct rounds_member *member);
void polling_forget(struct polling *polling, struct rounds_member *member);

/* Checks all members now. */
void polling_look_at_all(struct polling *polling);

/* Closes the handles; they are closed after the next loop iteration. */
void polling_close(struct polling *polling);
