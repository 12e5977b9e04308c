#include "daemon/server/core/slow.h"

#include "base/err.h"

/* Between the beginnings of rounds. */
#define ROUND_MS 5

static void on_timer(uv_timer_t *timer);

/* Not a timer of 0 ms: the loop calls such again and again before it looks at its sockets. */
static void on_turn(uv_idle_t *turn)
{
        struct slow *slow = CONTAINER_OF(turn, struct slow, turn);

        if (!rounds_turn(&slow->rounds))
                (void)uv_idle_stop(turn);
}

static void wait_for_round(struct slow *slow)
{
        if (slow->rounds.n && !uv_is_active((uv_handle_t *)&slow->timer))
                (void)uv_timer_start(&slow->timer, on_timer, ROUND_MS, 0);
}

static void on_timer(uv_timer_t *timer)
{
        struct slow *slow = CONTAINER_OF(timer, struct slow, timer);

        rounds_begin(&slow->rounds);
        (void)uv_idle_start(&slow->turn, on_turn);
        wait_for_round(slow);
}

int slow_open(struct slow *slow, uv_loop_t *loop,
              enum rounds_look (*look)(struct rounds_member *member))
{
        int r;

        rounds_init(&slow->rounds, look);
        r = uv_timer_init(loop, &slow->timer);
        return r ? r : uv_idle_init(loop, &slow->turn);
}

void slow_watch(struct slow *slow, struct rounds_member *member)
{
        rounds_put(&slow->rounds, member);
        wait_for_round(slow);
}

void slow_forget(struct slow *slow, struct rounds_member *member)
{
        rounds_take_out(&slow->rounds, member);
}

void slow_look_at_all(struct slow *slow)
{
        rounds_begin(&slow->rounds);
        while (rounds_turn(&slow->rounds))
                continue;
}

void slow_close(struct slow *slow)
{
        uv_close((uv_handle_t *)&slow->timer, NULL);
        uv_close((uv_handle_t *)&slow->turn, NULL);
}
