/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/core/polling.h"

#include "base/err.h"

/* Between the starts of two rounds. */
#define ROUND_MS 5

static void on_timer(uv_timer_t *timer);

/* An idle handle instead of a timer of 0 ms: the loop runs such timers repeatedly before it polls its
 * sockets. */
static void on_idle(uv_idle_t *idle)
{
        struct polling *polling = CONTAINER_OF(idle, struct polling, idle);

        if (!rounds_turn(&polling->rounds))
                (void)uv_idle_stop(idle);
}

static void wait_for_round(struct polling *polling)
{
        if (polling->rounds.n && !uv_is_active((uv_handle_t *)&polling->timer))
                (void)uv_timer_start(&polling->timer, on_timer, ROUND_MS, 0);
}

static void on_timer(uv_timer_t *timer)
{
        struct polling *polling = CONTAINER_OF(timer, struct polling, timer);

        rounds_begin(&polling->rounds);
        (void)uv_idle_start(&polling->idle, on_idle);
        wait_for_round(polling);
}

int polling_open(struct polling *polling, uv_loop_t *loop,
                 enum rounds_look (*look)(struct rounds_member *member))
{
        int r;

        rounds_init(&polling->rounds, look);
        r = uv_timer_init(loop, &polling->timer);
        return r ? r : uv_idle_init(loop, &polling->idle);
}

void polling_watch(struct polling *polling, struct rounds_member *member)
{
        rounds_put(&polling->rounds, member);
        wait_for_round(polling);
}

void polling_forget(struct polling *polling, struct rounds_member *member)
{
        rounds_take_out(&polling->rounds, member);
}

void polling_look_at_all(struct polling *polling)
{
        rounds_begin(&polling->rounds);
        while (rounds_turn(&polling->rounds))
                continue;
}

void polling_close(struct polling *polling)
{
        uv_close((uv_handle_t *)&polling->timer, NULL);
        uv_close((uv_handle_t *)&polling->idle, NULL);
}
