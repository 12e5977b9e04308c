/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ratelimit/pace.h"

#define NS_PER_S      UINT64_C(1000000000)
#define BURST_SECONDS 2

struct pace_rule pace_rule_of(uint64_t n_a_second)
{
        return (struct pace_rule){.step_ns = NS_PER_S / n_a_second,
                                  .burst_ns = BURST_SECONDS * NS_PER_S};
}

uint64_t pace_ready_ns(const struct pace *pace, const struct pace_rule *rule, uint64_t now_ns)
{
        uint64_t spent_ns = now_ns + rule->burst_ns - rule->step_ns;

        return pace->full_ns <= spent_ns ? now_ns : now_ns + (pace->full_ns - spent_ns);
}

bool pace_may(const struct pace *pace, const struct pace_rule *rule, uint64_t now_ns)
{
        return pace_ready_ns(pace, rule, now_ns) == now_ns;
}

void pace_take(struct pace *pace, const struct pace_rule *rule, uint64_t now_ns)
{
        if (pace->full_ns < now_ns)
                pace->full_ns = now_ns;
        pace->full_ns += rule->step_ns;
}

void stall_begin(struct stall *stall, uint64_t n_unread, uint64_t now_ns)
{
        *stall = (struct stall){.since_ns = now_ns, .n_unread = n_unread};
}

bool stall_is_over(struct stall *stall, uint64_t n_unread, uint64_t patience_ns, uint64_t now_ns)
{
        if (n_unread < stall->n_unread || !n_unread)
                stall->since_ns = now_ns;
        stall->n_unread = n_unread;
        return now_ns - stall->since_ns >= patience_ns;
}

void backoff_begin(struct backoff *backoff, uint64_t n, uint64_t now_ns)
{
        *backoff = (struct backoff){
                .next_ns = now_ns + BACKOFF_MIN_NS, .wait_ns = BACKOFF_MIN_NS, .n_seen = n};
}

bool backoff_is_over(const struct backoff *backoff, uint64_t now_ns)
{
        return now_ns >= backoff->next_ns;
}

void backoff_go_on(struct backoff *backoff, uint64_t n, uint64_t now_ns)
{
        if (n != backoff->n_seen) {
                backoff_begin(backoff, n, now_ns);
                return;
        }
        if (backoff->wait_ns < BACKOFF_MAX_NS)
                backoff->wait_ns *= 2;
        backoff->next_ns = now_ns + backoff->wait_ns;
}
