/* SPDX-License-Identifier: Apache-2.0 */
/* Round robin over members that must be polled, since no event tells of them. Each turn of a loop looks at
 * some of them, so that other events wait for one turn instead of a whole round.
 *
 * A member's owner sets the time from which on it is looked at, once in each round. A member for which work was done
 * comes last in the next round. A member may be added and removed at any time, also during a look. Its memory must
 * outlive the look. No call but a turn takes longer where there are more members. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct poll_rounds_member;
TAILQ_HEAD(poll_rounds_list, poll_rounds_member);

/* Intervals between checks of a number whose changes no event reports: the longer it stays the same, the
 * longer they are. */
struct backoff {
        uint64_t next_ns;
        uint64_t wait_ns;
        uint64_t n_seen;
};

struct poll_rounds_member {
        TAILQ_ENTRY(poll_rounds_member) link;
        struct poll_rounds_list *list; /* the member's list; NULL: none */
        struct backoff backoff;        /* when it is looked at next; the owner sets it */
};

/* The result of a look. */
enum poll_rounds_look {
        POLL_GLANCED, /* nothing was due */
        POLL_ASKED,   /* the system was asked */
        POLL_WORKED,  /* work was done: ends the turn */
        POLL_N_LOOKS,
};

struct poll_rounds {
        struct poll_rounds_list lists[4];
        struct poll_rounds_list *now;  /* to be looked at in this round */
        struct poll_rounds_list *late; /* in this round, after those */
        struct poll_rounds_list *next; /* in the next round */
        struct poll_rounds_list *last; /* in the next round, after those */
        unsigned n;
        uint64_t soonest_ns; /* after a round: no member's time comes earlier */
        enum poll_rounds_look (*look)(struct poll_rounds_member *member);
};

void poll_rounds_init(struct poll_rounds *rounds,
                      enum poll_rounds_look (*look)(struct poll_rounds_member *member));

/* Also legal for a member that is in already. The owner has set the member's time. */
void poll_rounds_put(struct poll_rounds *rounds, struct poll_rounds_member *member);
void poll_rounds_take_out(struct poll_rounds *rounds, struct poll_rounds_member *member);

/* Begins the next round. A round that is not over goes on instead. */
void poll_rounds_begin(struct poll_rounds *rounds);

/* Looks at some members. Returns whether more are left in this round. */
bool poll_rounds_turn(struct poll_rounds *rounds, uint64_t now_ns);

/* A peer with unread bytes, and since when it has read none of them. */
struct stall {
        uint64_t since_ns;
        uint64_t n_unread;
};

void stall_begin(struct stall *stall, uint64_t n_unread, uint64_t now_ns);

/* Notes that so many bytes are unread. Returns whether the number has not fallen for patience_ns. */
bool stall_is_over(struct stall *stall, uint64_t n_unread, uint64_t patience_ns, uint64_t now_ns);

#define BACKOFF_MIN_NS UINT64_C(5000000)
#define BACKOFF_MAX_NS (16 * BACKOFF_MIN_NS)

void backoff_begin(struct backoff *backoff, uint64_t n, uint64_t now_ns);

/* Whether the next check is due. */
bool backoff_is_over(const struct backoff *backoff, uint64_t now_ns);

/* Notes a check with this result, and sets the time of the next one. */
void backoff_go_on(struct backoff *backoff, uint64_t n, uint64_t now_ns);
