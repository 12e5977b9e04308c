/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fairness/poll_rounds.h"

#include <stddef.h>

/* The cost of one turn, in units of a glance: about that of a few requests. */
#define COST_A_TURN 128

static const unsigned costs[POLL_N_LOOKS] = {
        [POLL_GLANCED] = 1,
        [POLL_ASKED] = 16,
        [POLL_WORKED] = COST_A_TURN,
};

void poll_rounds_init(struct poll_rounds *rounds,
                      enum poll_rounds_look (*look)(struct poll_rounds_member *member))
{
        for (unsigned i = 0; i < 4; i++)
                TAILQ_INIT(&rounds->lists[i]);
        rounds->now = &rounds->lists[0];
        rounds->late = &rounds->lists[1];
        rounds->next = &rounds->lists[2];
        rounds->last = &rounds->lists[3];
        rounds->n = 0;
        rounds->soonest_ns = UINT64_MAX;
        rounds->look = look;
}

static void move(struct poll_rounds_member *member, struct poll_rounds_list *list)
{
        TAILQ_REMOVE(member->list, member, link);
        TAILQ_INSERT_TAIL(list, member, link);
        member->list = list;
}

static void note_soonest(struct poll_rounds *rounds, const struct poll_rounds_member *member)
{
        if (member->backoff.next_ns < rounds->soonest_ns)
                rounds->soonest_ns = member->backoff.next_ns;
}

void poll_rounds_put(struct poll_rounds *rounds, struct poll_rounds_member *member)
{
        note_soonest(rounds, member);
        if (member->list)
                return;
        TAILQ_INSERT_TAIL(rounds->next, member, link);
        member->list = rounds->next;
        rounds->n++;
}

void poll_rounds_take_out(struct poll_rounds *rounds, struct poll_rounds_member *member)
{
        if (!member->list)
                return;
        TAILQ_REMOVE(member->list, member, link);
        member->list = NULL;
        rounds->n--;
}

static void exchange(struct poll_rounds_list **one, struct poll_rounds_list **other)
{
        struct poll_rounds_list *list = *one;

        *one = *other;
        *other = list;
}

/* The member that is looked at next in this round; NULL: the round is over. */
static struct poll_rounds_member *first(struct poll_rounds *rounds)
{
        if (TAILQ_EMPTY(rounds->now))
                exchange(&rounds->now, &rounds->late);
        return TAILQ_FIRST(rounds->now);
}

void poll_rounds_begin(struct poll_rounds *rounds)
{
        if (first(rounds))
                return;
        exchange(&rounds->now, &rounds->next);
        exchange(&rounds->late, &rounds->last);
        rounds->soonest_ns = UINT64_MAX;
}

/* The list for a member after a look with this result. */
static struct poll_rounds_list *place_after(struct poll_rounds *rounds, enum poll_rounds_look look)
{
        return look == POLL_WORKED ? rounds->last : rounds->next;
}

bool poll_rounds_turn(struct poll_rounds *rounds, uint64_t now_ns)
{
        struct poll_rounds_member *member;
        unsigned cost = 0;

        while (cost < COST_A_TURN && (member = first(rounds))) {
                enum poll_rounds_look look = POLL_GLANCED;

                if (backoff_is_over(&member->backoff, now_ns))
                        look = rounds->look(member);
                if (member->list) {
                        move(member, place_after(rounds, look));
                        note_soonest(rounds, member);
                }
                cost += costs[look];
        }
        return first(rounds) != NULL;
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
