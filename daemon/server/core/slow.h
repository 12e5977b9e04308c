/* Connections of which the loop does not tell all: their peers are waited for, or are held. They are looked at from
 * time to time, some in each turn of the loop, which serves all others in between. On the loop. */
#pragma once

#include <uv.h>

#include "daemon/ratelimit/rounds.h"

struct slow {
        struct rounds rounds;
        uv_timer_t timer; /* between the beginnings of rounds */
        uv_idle_t turn;   /* while one is not over: the loop does not wait */
};

int slow_open(struct slow *slow, uv_loop_t *loop,
              enum rounds_look (*look)(struct rounds_member *member));

/* Legal also for one that is watched, or is not. */
void slow_watch(struct slow *slow, struct rounds_member *member);
void slow_forget(struct slow *slow, struct rounds_member *member);

/* A round of all, now. */
void slow_look_at_all(struct slow *slow);

/* Closes the handles; the loop has to go on for that. */
void slow_close(struct slow *slow);
