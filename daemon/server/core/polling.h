/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of which the loop does not tell all: their peers are waited for, or are held. They are looked at from
 * time to time, some in each iteration of the loop, which serves all others in between. On the loop. */
#pragma once

#include <uv.h>

#include "daemon/ratelimit/rounds.h"

struct polling {
        struct rounds rounds;
        uv_timer_t timer; /* between the beginnings of rounds */
        uv_idle_t idle;   /* while one is not over: the loop does not wait */
};

int polling_open(struct polling *polling, uv_loop_t *loop,
                 enum rounds_look (*look)(struct rounds_member *member));

/* Legal also for one that is watched, or is not. */
void polling_watch(struct polling *polling, struct rounds_member *member);
void polling_forget(struct polling *polling, struct rounds_member *member);

/* A round of all, now. */
void polling_look_at_all(struct polling *polling);

/* Closes the handles; the loop has to go on for that. */
void polling_close(struct polling *polling);
