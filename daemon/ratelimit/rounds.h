/* SPDX-License-Identifier: Apache-2.0 */
/* Things that are looked at now and then, since nothing tells of them: some in each turn of a loop, so that whoever
 * comes meanwhile waits for a turn and not for all of them.
 *
 * Each is looked at once in a round. One that work was done for comes last in the next, and one with more of it comes
 * again in this, behind the others. The next may begin before one is over: what is left of it goes first. A thing may
 * be put in and taken out at any time, also by a look at it or at another; its memory outlives the look. Pure. */
#pragma once

#include <stdbool.h>
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
