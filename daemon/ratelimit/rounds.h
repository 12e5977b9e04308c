/* SPDX-License-Identifier: Apache-2.0 */
/* Things that are looked at now and then, since nothing tells of them: some in each turn of a loop, so that whoever
 * comes meanwhile waits for a turn and not for all of them.
 *
 * Each is looked at once in a round. One that work was done for comes last in the next, and one with more of it comes
 * again in this, behind the others. The next may begin before one is over: what is left of it goes first. A thing may
 * be put in and taken out at any time, also by a look at it or at another; its memory outlives the look. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct rounds_member;
TAILQ_HEAD(rounds_list, rounds_member);

struct rounds_member {
        TAILQ_ENTRY(rounds_member) link;
        struct rounds_list *list; /* it is in; NULL: none */
};

/* What a look came to. */
enum rounds_look {
        ROUNDS_GLANCED,  /* nothing was due */
        ROUNDS_ASKED,    /* the system was asked something */
        ROUNDS_WORKED,   /* something was done: that ends the turn */
        ROUNDS_HAS_MORE, /* likewise, and there is more to do */
        ROUNDS_N_LOOKS,
};

struct rounds {
        struct rounds_list lists[3];
        struct rounds_list *now;  /* to be looked at in this round */
        struct rounds_list *next; /* in the next */
        struct rounds_list *last; /* in the next, after those */
        unsigned n;
        enum rounds_look (*look)(struct rounds_member *member);
};

void rounds_init(struct rounds *rounds, enum rounds_look (*look)(struct rounds_member *member));

/* Legal also for one that is in, or is not. */
void rounds_put(struct rounds *rounds, struct rounds_member *member);
void rounds_take_out(struct rounds *rounds, struct rounds_member *member);

/* The next one begins. */
void rounds_begin(struct rounds *rounds);

/* Looks at some. Returns whether more are left in this round. */
bool rounds_turn(struct rounds *rounds);

/* Somebody for whom something is left to read, and since when he has read nothing of it. */
struct stall {
        uint64_t since_ns;
        uint64_t n_unread;
};

void stall_begin(struct stall *stall, uint64_t n_unread, uint64_t now_ns);

/* He is left so much now; whether that was so, or less, for patience_ns. */
bool stall_is_over(struct stall *stall, uint64_t n_unread, uint64_t patience_ns, uint64_t now_ns);

/* Looks at a number of which nobody tells when it changes: the rarer, the longer it has not. */
struct backoff {
        uint64_t next_ns;
        uint64_t wait_ns;
        uint64_t n_seen;
};

#define BACKOFF_MIN_NS UINT64_C(5000000)
#define BACKOFF_MAX_NS (16 * BACKOFF_MIN_NS)

void backoff_begin(struct backoff *backoff, uint64_t n, uint64_t now_ns);

/* It is to be looked at again. */
bool backoff_is_over(const struct backoff *backoff, uint64_t now_ns);

/* It was, and is so much. */
void backoff_go_on(struct backoff *backoff, uint64_t n, uint64_t now_ns);
