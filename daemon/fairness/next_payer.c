/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fairness/next_payer.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* Payers that are looked at whenever one loses its last reference: are they level by now? */
#define SWEEPS_A_TIME 4

#define PLACES_MIN 8

static struct payer *root_of(struct payer *payer)
{
        while (payer->parent)
                payer = payer->parent;
        return payer;
}

/* What a child has used at least when it has work again. Those below a user can be made at will, and get no credit. */
static uint64_t level_of(const struct payer *parent)
{
        uint64_t credit_ns = parent->parent ? 0 : PAYER_CREDIT_NS;

        return parent->reached_ns > credit_ns ? parent->reached_ns - credit_ns : 0;
}

/* Among those without work, the one that was served last decides. With no other at work, no payer waits for it. */
static bool is_level(const struct payer *payer)
{
        return payer->used_ns <= level_of(payer->parent) || !payer->parent->n_with_work;
}

/* Without references it is kept until a sweep finds it level. */
static void let_go(struct payer *payer)
{
        assert(payer->n_refs);
        if (--payer->n_refs == 0)
                TAILQ_INSERT_TAIL(&root_of(payer)->owing, payer, owed_link);
}

/* The parent is left to the sweep: these calls do not nest. */
static void end(struct payer *payer)
{
        struct payer *parent = payer->parent;

        assert(!payer->n_refs && !payer->has_work && !payer->n_children);
        free(payer->children);
        parent->n_children--;
        payer->on_end(payer);
        let_go(parent);
}

static void sweep(struct payer *everyone, unsigned n_most)
{
        struct payer *payer;

        while (n_most-- && (payer = TAILQ_FIRST(&everyone->owing))) {
                TAILQ_REMOVE(&everyone->owing, payer, owed_link);
                if (is_level(payer))
                        end(payer);
                else
                        TAILQ_INSERT_TAIL(&everyone->owing, payer, owed_link);
        }
}

void payer_init_root(struct payer *payer)
{
        *payer = (struct payer){.n_refs = 1};
        TAILQ_INIT(&payer->tasks);
        TAILQ_INIT(&payer->owing);
}

void payer_deinit_root(struct payer *payer)
{
        struct payer *owing;

        while ((owing = TAILQ_FIRST(&payer->owing))) {
                TAILQ_REMOVE(&payer->owing, owing, owed_link);
                end(owing);
        }
        assert(!payer->n_children && TAILQ_EMPTY(&payer->tasks));
        free(payer->children);
        payer->children = NULL;
}

static int make_place(struct payer *payer)
{
        unsigned n = payer->n_places ? 2 * payer->n_places : PLACES_MIN;
        struct payer_place *children;

        if (payer->n_children < payer->n_places)
                return 0;
        children = realloc(payer->children, n * sizeof(*children));
        if (!children)
                return -ENOMEM;
        payer->children = children;
        payer->n_places = n;
        return 0;
}

int payer_init(struct payer *payer, struct payer *parent, void (*on_end)(struct payer *payer))
{
        int r = make_place(parent);

        if (r)
                return r;
        *payer = (struct payer){
                .parent = parent, .owner = parent->owner, .n_refs = 1, .on_end = on_end};
        TAILQ_INIT(&payer->tasks);
        parent->n_children++;
        payer_ref(parent);
        return 0;
}

/* A payer that is referred to again owes what it owed. */
void payer_ref(struct payer *payer)
{
        if (!payer->n_refs++)
                TAILQ_REMOVE(&root_of(payer)->owing, payer, owed_link);
}

void payer_unref(struct payer *payer)
{
        let_go(payer);
        if (!payer->n_refs)
                sweep(root_of(payer), SWEEPS_A_TIME);
}

static void set_place(struct payer *parent, unsigned place, struct payer_place child)
{
        parent->children[place] = child;
        child.payer->place = place;
}

static struct payer_place place_of(struct payer *child)
{
        return (struct payer_place){child->used_ns, child};
}

static void rise(struct payer *child)
{
        struct payer *parent = child->parent;
        unsigned place = child->place;

        while (place) {
                unsigned above = (place - 1) / 2;

                if (parent->children[above].used_ns <= child->used_ns)
                        break;
                set_place(parent, place, parent->children[above]);
                place = above;
        }
        set_place(parent, place, place_of(child));
}

static void sink(struct payer *child)
{
        struct payer *parent = child->parent;
        unsigned place = child->place;

        for (;;) {
                unsigned below = 2 * place + 1;

                if (below + 1 < parent->n_with_work &&
                    parent->children[below + 1].used_ns < parent->children[below].used_ns)
                        below++;
                if (below >= parent->n_with_work ||
                    parent->children[below].used_ns >= child->used_ns)
                        break;
                set_place(parent, place, parent->children[below]);
                place = below;
        }
        set_place(parent, place, place_of(child));
}

static void begin_work(struct payer *payer)
{
        for (; payer->parent && !payer->has_work; payer = payer->parent) {
                struct payer *parent = payer->parent;

                payer->has_work = true;
                if (payer->used_ns < level_of(parent))
                        payer->used_ns = level_of(parent);
                payer->place = parent->n_with_work++;
                rise(payer);
        }
}

static bool is_done(const struct payer *payer)
{
        return TAILQ_EMPTY(&payer->tasks) && !payer->n_with_work;
}

static void leave_heap(struct payer *payer)
{
        struct payer *parent = payer->parent;
        struct payer_place last = parent->children[--parent->n_with_work];

        payer->has_work = false;
        if (last.payer == payer)
                return;
        set_place(parent, payer->place, last);
        sink(last.payer);
        rise(last.payer);
}

static void end_work(struct payer *payer)
{
        for (; payer->has_work && is_done(payer); payer = payer->parent)
                leave_heap(payer);
}

void payer_put(struct payer *payer, struct task *task)
{
        if (task->payer)
                return;
        task->payer = payer;
        TAILQ_INSERT_TAIL(&payer->tasks, task, link);
        begin_work(payer);
}

void payer_take_out(struct task *task)
{
        struct payer *payer = task->payer;

        if (!payer)
                return;
        TAILQ_REMOVE(&payer->tasks, task, link);
        task->payer = NULL;
        end_work(payer);
}

struct task *payer_next(struct payer *everyone, struct payer **ret_payer)
{
        struct payer *payer = everyone;
        struct task *task;

        while (TAILQ_EMPTY(&payer->tasks)) {
                if (!payer->n_with_work)
                        return NULL;
                if (payer->reached_ns < payer->children[0].used_ns)
                        payer->reached_ns = payer->children[0].used_ns;
                payer = payer->children[0].payer;
        }
        task = TAILQ_FIRST(&payer->tasks);
        payer_ref(payer);
        TAILQ_REMOVE(&payer->tasks, task, link);
        task->payer = NULL;
        *ret_payer = payer;
        return task;
}

void payer_charge(struct payer *payer, uint64_t n_ns)
{
        if (n_ns > PAYER_STEP_MAX_NS)
                n_ns = PAYER_STEP_MAX_NS;
        for (; payer; payer = payer->parent) {
                payer->used_ns += n_ns;
                if (!payer->has_work)
                        continue;
                if (is_done(payer))
                        leave_heap(payer);
                else
                        sink(payer);
        }
}

bool payer_is_alone(const struct payer *payer)
{
        unsigned n_own = 0;

        for (; payer; payer = payer->parent) {
                if (!TAILQ_EMPTY(&payer->tasks) || payer->n_with_work > n_own)
                        return false;
                n_own = payer->has_work;
        }
        return true;
}

void payer_end_step(struct payer *payer, uint64_t n_ns)
{
        payer_charge(payer, n_ns);
        payer_unref(payer);
}
