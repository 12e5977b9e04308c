/* SPDX-License-Identifier: Apache-2.0 */
/* Who pays for the time of a loop, and whose work is next.
 *
 * Payers form a tree: everyone, users, their containers, their processes. Work is cut into steps. The time that a step
 * takes is added to its payer and to all above it. The next step belongs to the user that has used least; of its
 * containers to the one that has used least; and so on down. So a user with many processes gets no more than one with
 * a single process, and a user alone gets all.
 *
 * A payer without work gets no credit for that: when it has work again, it begins level with the one that is served
 * at present. A user gets a little: a request of several steps, from one that asks now and then, waits for the others
 * once and not at each step. What a payer owes, it still owes: one that nothing refers to any more is kept until it
 * would begin with as much. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

/* The most that one step counts: a payer does not pay for the times in which the kernel runs others. */
#define PAYER_STEP_MAX_NS UINT64_C(200000)

/* So much of the time that a user did not take is still its own. */
#define PAYER_CREDIT_NS UINT64_C(500000)

struct task;
TAILQ_HEAD(task_list, task);

struct payer;
TAILQ_HEAD(payer_list, payer);

/* Work that is done in steps. It is in its payer's list while it has more to do. */
struct task {
        TAILQ_ENTRY(task) link;
        struct payer *payer; /* in whose list it is; NULL: in none */
        void (*step)(struct task *task);
};

/* A payer in its parent's heap, with what it has used: a comparison then needs to look at no payer. */
struct payer_place {
        uint64_t used_ns;
        struct payer *payer;
};

struct payer {
        struct payer *parent; /* NULL: this is everyone */
        uint64_t
                owner; /* the number of the user, or of the container that root runs: set there, and
                                 inherited. One that goes and comes again has the same */
        uint64_t used_ns;    /* by it and by all below it */
        uint64_t reached_ns; /* what the child had used that was served last */
        struct task_list tasks;
        struct payer_place
                *children; /* those with work: a heap, the one that has used least first */
        unsigned n_with_work, n_children, n_places;
        unsigned place;               /* in the parent's heap */
        bool has_work;                /* it, or one below it: it is in the parent's heap */
        unsigned n_refs;              /* its children are among them */
        TAILQ_ENTRY(payer) owed_link; /* while nothing refers to it and it owes */
        struct payer_list owing;      /* of everyone: payers that are kept until they are level */
        void (*on_end)(
                struct payer
                        *payer); /* frees it; called when nothing refers to it and it is level */
};

/* For everyone, without a parent. */
void payer_init_root(struct payer *payer);

/* Ends the payers that are kept because they owe. No other is left. */
void payer_deinit_root(struct payer *payer);

/* -ENOMEM. The payer has one reference. */
int payer_init(struct payer *payer, struct payer *parent, void (*on_end)(struct payer *payer));

void payer_ref(struct payer *payer);
void payer_unref(struct payer *payer);

/* The task joins the payer's list, or stays where it is. That is no reference to the payer: the task's owner has one. */
void payer_put(struct payer *payer, struct task *task);

/* Also legal for a task that is in no list. */
void payer_take_out(struct task *task);

/* Takes the next task out of its list; NULL: there is no work. The caller then has the reference *ret_payer, and that
 * payer counts as one with work until payer_end_step(): most have more of it then, and keep their places. */
struct task *payer_next(struct payer *everyone, struct payer **ret_payer);

/* Whether no task waits during a step of the payer. */
bool payer_is_alone(const struct payer *payer);

/* The step took so much time. Takes the reference. */
void payer_end_step(struct payer *payer, uint64_t n_ns);

/* The payer has used so much time. */
void payer_charge(struct payer *payer, uint64_t n_ns);
