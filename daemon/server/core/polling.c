/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/core/polling.h"

#include "base/clock.h"
#include "base/err.h"

/* From the end of a round to the next one, at least. */
#define ROUND_MS 5

static uint64_t now_ns(const struct polling *polling)
{
        return uv_now(polling->scheduler->loop) * NS_PER_MS;
}

/* The node pays: their peers have nothing to say. */
static void go_on(struct polling *polling)
{
        payer_put(&polling->scheduler->node, &polling->turn);
}

static void on_timer(uv_timer_t *timer)
{
        struct polling *polling = CONTAINER_OF(timer, struct polling, timer);

        poll_rounds_begin(&polling->rounds);
        go_on(polling);
}

static uint64_t ms_until(const struct polling *polling, uint64_t at_ns)
{
        uint64_t ns = now_ns(polling);

        return at_ns <= ns + ROUND_MS * NS_PER_MS ? ROUND_MS : (at_ns - ns) / NS_PER_MS;
}

/* No round begins before a member's time: peers that never read wake the daemon seldom. */
static void wait_for_round(struct polling *polling)
{
        uint64_t ms = ms_until(polling, polling->rounds.soonest_ns);

        if (polling->rounds.n && (!uv_is_active((uv_handle_t *)&polling->timer) ||
                                  uv_timer_get_due_in(&polling->timer) > ms))
                (void)uv_timer_start(&polling->timer, on_timer, ms, 0);
}

static void look_at_some(struct task *task)
{
        struct polling *polling = CONTAINER_OF(task, struct polling, turn);

        if (poll_rounds_turn(&polling->rounds, now_ns(polling)))
                go_on(polling);
        else
                wait_for_round(polling);
}

int polling_open(struct polling *polling, struct scheduler *scheduler,
                 enum poll_rounds_look (*look)(struct poll_rounds_member *member))
{
        poll_rounds_init(&polling->rounds, look);
        polling->scheduler = scheduler;
        polling->turn.step = look_at_some;
        return uv_timer_init(scheduler->loop, &polling->timer);
}

void polling_watch(struct polling *polling, struct poll_rounds_member *member)
{
        poll_rounds_put(&polling->rounds, member);
        wait_for_round(polling);
}

void polling_forget(struct polling *polling, struct poll_rounds_member *member)
{
        poll_rounds_take_out(&polling->rounds, member);
}

/* A round that is not over has looked at some already. */
void polling_look_at_all(struct polling *polling)
{
        while (poll_rounds_turn(&polling->rounds, UINT64_MAX))
                continue;
        poll_rounds_begin(&polling->rounds);
        while (poll_rounds_turn(&polling->rounds, UINT64_MAX))
                continue;
}

void polling_close(struct polling *polling)
{
        uv_close((uv_handle_t *)&polling->timer, NULL);
        payer_take_out(&polling->turn);
}
