/* SPDX-License-Identifier: Apache-2.0 */
/* next_payer, with random operations on a tree of three levels, beside a model that searches where it keeps a heap. */
#include <string.h>

#include "base/err.h"
#include "daemon/fairness/next_payer.h"
#include "tests/random.h"
#include "tests/suite.h"

/* Check's own asserts write to a pipe, also where they hold. */
#define EXPECT(condition)                               \
        do {                                            \
                if (!(condition))                       \
                        ck_abort_msg("%s", #condition); \
        } while (0)

#define N_USERS 6
#define N_BELOW 4 /* a user's containers, a container's processes */
#define N_NODES (N_USERS * (1 + N_BELOW + N_BELOW * N_BELOW))
#define N_TASKS 96

/* The number of the root, and of what is in no list. */
#define EVERYONE N_NODES
#define NOWHERE  (N_NODES + 1)

/* What next_payer.c should know of a payer. */
static struct node {
        struct payer payer;
        unsigned parent;
        bool is_made;
        unsigned n_refs; /* the test's own */
        uint64_t used_ns, reached_ns;
        bool has_work;
        unsigned n_children, n_with_work; /* counted from scratch */
} nodes[N_NODES + 1];

static struct thing {
        struct task task;
        unsigned node;   /* in whose list it is, or NOWHERE */
        uint64_t number; /* of the put: the order in the list */
} things[N_TASKS];

static struct test_random numbers;
static uint64_t n_puts, n_served, n_alone, n_kept, n_revived;
static bool is_over;

static unsigned below(uint64_t n)
{
        return (unsigned)test_random_below(&numbers, n);
}

static unsigned parent_of(unsigned at)
{
        if (at < N_USERS)
                return EVERYONE;
        return (at - N_USERS) / N_BELOW;
}

static void count_all(void)
{
        for (unsigned i = 0; i <= N_NODES; i++) {
                nodes[i].has_work = false;
                nodes[i].n_children = nodes[i].n_with_work = 0;
        }
        for (unsigned i = 0; i < N_TASKS; i++) {
                for (unsigned at = things[i].node; at < EVERYONE; at = nodes[at].parent)
                        nodes[at].has_work = true;
        }
        for (unsigned i = 0; i < N_NODES; i++) {
                nodes[nodes[i].parent].n_children += nodes[i].is_made;
                nodes[nodes[i].parent].n_with_work += nodes[i].has_work;
        }
}

static struct thing *first_of(unsigned at)
{
        struct thing *first = NULL;

        for (unsigned i = 0; i < N_TASKS; i++) {
                if (things[i].node == at && (!first || things[i].number < first->number))
                        first = &things[i];
        }
        return first;
}

static void check_heap(const struct node *node)
{
        for (unsigned i = 0; i < node->payer.n_with_work; i++) {
                const struct payer *child = node->payer.children[i].payer;

                EXPECT(node->payer.children[i].used_ns == child->used_ns);
                EXPECT(child->place == i);
                EXPECT(child->parent == &node->payer);
                EXPECT(child->has_work);
                EXPECT(child->used_ns >= node->payer.children[i ? (i - 1) / 2 : 0].used_ns);
        }
}

static void check_all(void)
{
        count_all();
        for (unsigned i = 0; i <= N_NODES; i++) {
                const struct node *node = &nodes[i];

                if (!node->is_made)
                        continue;
                if (i != EVERYONE)
                        EXPECT(node->payer.has_work == node->has_work);
                EXPECT(node->payer.used_ns == node->used_ns);
                EXPECT(node->payer.reached_ns == node->reached_ns);
                EXPECT(node->payer.n_children == node->n_children);
                EXPECT(node->payer.n_with_work == node->n_with_work);
                EXPECT(node->payer.n_refs == node->n_refs + node->n_children + (i == EVERYONE));
                check_heap(node);
        }
}

static uint64_t level_below(unsigned at)
{
        uint64_t reached_ns = nodes[at].reached_ns;

        if (at != EVERYONE)
                return reached_ns;
        return reached_ns > PAYER_CREDIT_NS ? reached_ns - PAYER_CREDIT_NS : 0;
}

/* Nothing refers to it, and it owes nothing to those beside it that have work. */
static void on_end(struct payer *payer)
{
        struct node *node = CONTAINER_OF(payer, struct node, payer);
        const struct node *parent = &nodes[node->parent];

        count_all();
        EXPECT(node->is_made && !node->n_refs && !node->n_children && !node->has_work);
        if (!is_over)
                EXPECT(node->used_ns <= level_below(node->parent) || !parent->n_with_work);
        node->is_made = false;
}

static void make(unsigned at)
{
        struct node *node = &nodes[at];

        if (!nodes[node->parent].is_made)
                return;
        EXPECT(payer_init(&node->payer, &nodes[node->parent].payer, on_end) == 0);
        node->is_made = true;
        node->n_refs = 1;
        node->used_ns = node->reached_ns = 0;
}

static void ref(unsigned at)
{
        n_revived += !nodes[at].payer.n_refs;
        nodes[at].n_refs++;
        payer_ref(&nodes[at].payer);
}

static void take_out(struct thing *thing)
{
        thing->node = NOWHERE;
        payer_take_out(&thing->task);
        EXPECT(!thing->task.payer);
}

/* Who has work has a reference. */
static void unref(unsigned at)
{
        struct thing *thing;

        while (nodes[at].n_refs == 1 && (thing = first_of(at)))
                take_out(thing);
        nodes[at].n_refs--;
        payer_unref(&nodes[at].payer);
        n_kept += nodes[at].is_made && !nodes[at].payer.n_refs;
}

static void put(struct thing *thing, unsigned at)
{
        payer_put(&nodes[at].payer, &thing->task);
        if (thing->node != NOWHERE)
                return;
        count_all();
        for (unsigned i = at; i != EVERYONE && !nodes[i].has_work; i = nodes[i].parent) {
                if (nodes[i].used_ns < level_below(nodes[i].parent))
                        nodes[i].used_ns = level_below(nodes[i].parent);
        }
        thing->node = at;
        thing->number = n_puts++;
}

/* None beside it that has work has used less. */
static void expect_least(unsigned at)
{
        struct node *parent = &nodes[nodes[at].parent];

        EXPECT(nodes[at].has_work);
        for (unsigned i = 0; i < N_NODES; i++) {
                if (nodes[i].parent == nodes[at].parent && nodes[i].has_work)
                        EXPECT(nodes[at].used_ns <= nodes[i].used_ns);
        }
        EXPECT(!first_of(nodes[at].parent));
        if (parent->reached_ns < nodes[at].used_ns)
                parent->reached_ns = nodes[at].used_ns;
}

/* During a step of it. */
static void expect_alone(unsigned at)
{
        bool any = false;

        for (unsigned i = 0; i < N_TASKS; i++)
                any |= things[i].node != NOWHERE;
        EXPECT(payer_is_alone(&nodes[at].payer) == !any);
        n_alone += !any;
}

static void charge(unsigned at, uint64_t n_ns)
{
        if (n_ns > PAYER_STEP_MAX_NS)
                n_ns = PAYER_STEP_MAX_NS;
        for (; at != EVERYONE; at = nodes[at].parent)
                nodes[at].used_ns += n_ns;
        nodes[EVERYONE].used_ns += n_ns;
}

static void charge_outside(unsigned at, uint64_t n_ns)
{
        payer_charge(&nodes[at].payer, n_ns);
        charge(at, n_ns);
}

/* A step may put tasks and take them out: its own payer's, and others'. */
static void change_one(void)
{
        struct thing *thing = &things[below(N_TASKS)];
        unsigned at = below(N_NODES);

        if (below(2))
                take_out(thing);
        else if (nodes[at].is_made && nodes[at].n_refs)
                put(thing, at);
}

static void serve(void)
{
        struct payer *payer;
        struct task *task;
        struct thing *thing;
        uint64_t n_ns;
        unsigned at;

        count_all();
        task = payer_next(&nodes[EVERYONE].payer, &payer);
        if (!task) {
                EXPECT(nodes[EVERYONE].n_with_work == 0);
                return;
        }
        at = (unsigned)(CONTAINER_OF(payer, struct node, payer) - nodes);
        thing = CONTAINER_OF(task, struct thing, task);
        EXPECT(thing == first_of(at));
        EXPECT(!task->payer);
        for (unsigned i = at; i != EVERYONE; i = nodes[i].parent)
                expect_least(i);
        thing->node = NOWHERE;
        n_served++;
        if (below(4))
                put(thing, at);
        while (!below(4))
                change_one();
        expect_alone(at);
        n_ns = below(PAYER_STEP_MAX_NS * 5 / 4);
        payer_end_step(payer, n_ns);
        charge(at, n_ns);
}

static void operate(void)
{
        struct thing *thing = &things[below(N_TASKS)];
        unsigned at = below(N_NODES), how = below(16);
        struct node *node = &nodes[at];

        if (how < 7)
                serve();
        else if (!node->is_made)
                make(at);
        else if (how < 11 && node->n_refs)
                put(thing, at);
        else if (how == 11)
                take_out(thing);
        else if (how == 12 && node->n_refs)
                charge_outside(at, below(PAYER_STEP_MAX_NS));
        else if (how == 13)
                ref(at);
        else if (node->n_refs)
                unref(at);
}

static void begin(void)
{
        numbers = test_random_begin();
        for (unsigned i = 0; i < N_NODES; i++)
                nodes[i].parent = parent_of(i);
        nodes[EVERYONE].parent = NOWHERE;
        nodes[EVERYONE].is_made = true;
        payer_init_root(&nodes[EVERYONE].payer);
        for (unsigned i = 0; i < N_TASKS; i++)
                things[i].node = NOWHERE;
}

/* With no work left all are level, and each end looks at some of those that are kept. */
static void end_all(void)
{
        for (unsigned i = 0; i < N_TASKS; i++)
                take_out(&things[i]);
        for (unsigned i = 0; i < N_NODES; i++) {
                while (nodes[i].n_refs)
                        unref(i);
        }
        for (unsigned i = 0; i < N_NODES; i++) {
                if (!nodes[0].is_made)
                        make(0);
                else if (!nodes[0].payer.n_refs)
                        ref(0);
                unref(0);
        }
        check_all();
        EXPECT(nodes[EVERYONE].n_children == 0);
        EXPECT(TAILQ_EMPTY(&nodes[EVERYONE].payer.owing));
        is_over = true;
        payer_deinit_root(&nodes[EVERYONE].payer);
}

TEST(the_next_is_always_the_one_that_used_least)
{
        uint64_t n_steps = test_n_steps();

        begin();
        for (uint64_t i = 0; i < n_steps; i++) {
                operate();
                check_all();
        }
        ck_assert_uint_gt(n_served, n_steps / 4);
        ck_assert_uint_gt(n_alone, 10);
        ck_assert_uint_gt(n_kept, 10);
        ck_assert_uint_gt(n_revived, 10);
        end_all();
}

TESTS_MAIN("payer_model", .limit_s = UNLIMITED)
