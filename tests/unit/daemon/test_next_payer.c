/* SPDX-License-Identifier: Apache-2.0 */
/* payer: whose step is next, however many processes and containers a user has; what idleness, an end and a return
 * change. model_payer compares the order of all with a naive model. */
#include "daemon/fairness/next_payer.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "tests/random.h"
#include "tests/suite.h"
#include "tests/unit/support/failing_alloc.h"

#define N_NODES 512
#define US      UINT64_C(1000)
#define MS      (1000 * US)

/* A payer with one task that always has more to do, in the tests that count time. */
static struct node {
        struct payer payer;
        struct task task;
        uint64_t n_ns; /* its own steps' */
        unsigned n_steps;
        bool has_ended;
} nodes[N_NODES];

static struct payer everyone;
static struct test_random numbers;
static unsigned n_ended;

static void on_end(struct payer *payer)
{
        struct node *node = CONTAINER_OF(payer, struct node, payer);

        ck_assert(!node->has_ended);
        node->has_ended = true;
        n_ended++;
}

static void start(void)
{
        memset(nodes, 0, sizeof(nodes));
        n_ended = 0;
        numbers = test_random_begin();
        payer_init_root(&everyone);
}

/* Every payer that a test made has ended by then, whatever it owes. */
static void stop(void)
{
        unsigned n_made = 0;

        payer_deinit_root(&everyone);
        for (unsigned i = 0; i < N_NODES; i++) {
                n_made += nodes[i].payer.parent != NULL;
                ck_assert(!nodes[i].payer.parent || nodes[i].has_ended);
        }
        ck_assert_uint_eq(n_ended, n_made);
}

static struct payer *make(unsigned at, struct payer *parent)
{
        ck_assert_int_eq(payer_init(&nodes[at].payer, parent, on_end), 0);
        return &nodes[at].payer;
}

static void put(unsigned at)
{
        payer_put(&nodes[at].payer, &nodes[at].task);
}

static uint64_t any_step(void)
{
        return US + test_random_below(&numbers, PAYER_STEP_MAX_NS - US);
}

/* One step of that length. Returns whose it was; its task has more to do. */
static struct node *step(uint64_t n_ns)
{
        struct payer *payer;
        struct task *task = payer_next(&everyone, &payer);
        struct node *node = CONTAINER_OF(payer, struct node, payer);

        ck_assert_ptr_nonnull(task);
        ck_assert_ptr_eq(task, &node->task);
        ck_assert_ptr_null(task->payer);
        node->n_ns += n_ns;
        node->n_steps++;
        payer_put(payer, task);
        payer_end_step(payer, n_ns);
        return node;
}

static void unref(unsigned from, unsigned to)
{
        for (unsigned i = from; i < to; i++) {
                payer_take_out(&nodes[i].task);
                payer_unref(&nodes[i].payer);
        }
}

static uint64_t sum(unsigned from, unsigned to)
{
        uint64_t n_ns = 0;

        for (unsigned i = from; i < to; i++)
                n_ns += nodes[i].n_ns;
        return n_ns;
}

static void expect_level(uint64_t one, uint64_t other, uint64_t n_ns)
{
        ck_assert_uint_le(one, other + n_ns);
        ck_assert_uint_le(other, one + n_ns);
}

/* Node 0 has three containers, nodes 2 to 4, of 1, 10 and 40 processes; node 1 is the other user. */
TEST(containers_share_what_their_user_has)
{
        struct payer *user = make(0, &everyone), *other = make(1, &everyone);
        struct payer *containers[3] = {make(2, user), make(3, user), make(4, user)};

        for (unsigned i = 5; i < 56; i++)
                (void)make(i, i < 6 ? containers[0] : i < 16 ? containers[1] : containers[2]);
        (void)make(56, other);
        for (unsigned i = 5; i <= 56; i++)
                put(i);
        for (unsigned i = 0; i < 20000; i++)
                (void)step(any_step());
        expect_level(sum(5, 56), nodes[56].n_ns, 201 * US);
        expect_level(sum(5, 6), sum(6, 16), 201 * US);
        expect_level(sum(5, 6), sum(16, 56), 201 * US);
        for (unsigned i = 16; i < 56; i++)
                expect_level(nodes[i].n_ns, nodes[16].n_ns, 201 * US);
        unref(5, 57);
        unref(2, 5);
        unref(0, 2);
}

TEST(a_payer_has_the_owner_of_the_one_above_it)
{
        struct payer *user = &nodes[0].payer, *process = &nodes[1].payer;

        start();
        ck_assert_int_eq(payer_init(user, &everyone, on_end), 0);
        user->owner = 7;
        ck_assert_int_eq(payer_init(process, user, on_end), 0);
        ck_assert_uint_eq(process->owner, 7);
        payer_unref(process);
        payer_unref(user);
        stop();
}

/* One works for a second; the other, made long before, then has half of what follows, and not the second. */
TEST(what_was_idle_gets_little_credit)
{
        (void)make(0, &everyone);
        (void)make(1, &everyone);
        put(0);
        for (unsigned i = 0; i < 10000; i++)
                (void)step(100 * US);
        nodes[0].n_ns = 0;
        put(1);
        for (unsigned i = 0; i < 100; i++) {
                (void)step(100 * US);
                expect_level(nodes[0].n_ns, nodes[1].n_ns, 200 * US + PAYER_CREDIT_NS);
        }
        ck_assert_uint_gt(nodes[1].n_ns, nodes[0].n_ns);
        unref(0, 2);
}

/* The same among the processes of a user that was idle itself, and for a process that is made late. */
TEST(a_process_gets_no_credit_for_its_users_idleness)
{
        struct payer *user = make(0, &everyone);

        (void)make(1, &everyone);
        (void)make(2, user);
        (void)make(3, user);
        put(2);
        for (unsigned i = 0; i < 1000; i++)
                (void)step(100 * US);
        payer_take_out(&nodes[2].task);
        put(1);
        for (unsigned i = 0; i < 1000; i++)
                (void)step(100 * US);
        for (unsigned i = 1; i < 4; i++)
                nodes[i].n_ns = 0;
        put(2);
        put(3);
        for (unsigned i = 0; i < 200; i++) {
                (void)step(100 * US);
                expect_level(nodes[1].n_ns, sum(2, 4), 200 * US + PAYER_CREDIT_NS);
                expect_level(nodes[2].n_ns, nodes[3].n_ns, 200 * US);
        }
        (void)make(4, user);
        put(4);
        for (unsigned i = 1; i < 4; i++)
                nodes[i].n_ns = 0;
        for (unsigned i = 0; i < 300; i++) {
                (void)step(100 * US);
                expect_level(nodes[4].n_ns, nodes[2].n_ns, 200 * US);
                expect_level(nodes[4].n_ns, nodes[3].n_ns, 200 * US);
        }
        unref(1, 5);
        payer_unref(&nodes[0].payer);
}

/* Node 0 works in bursts, node 1 always. However it times them, node 0 has no more than half of the time of its bursts,
 * but for a step and its credit a burst. */
TEST(heavy_then_idle_then_heavy_is_not_more_than_its_share)
{
        uint64_t n_bursts = 50, mine = 0, others = 0;

        (void)make(0, &everyone);
        (void)make(1, &everyone);
        put(1);
        for (unsigned burst = 0; burst < n_bursts; burst++) {
                unsigned n_idle = (unsigned)test_random_below(&numbers, 500);
                unsigned n_busy = 1 + (unsigned)test_random_below(&numbers, 100);

                for (unsigned i = 0; i < n_idle; i++)
                        (void)step(any_step());
                nodes[0].n_ns = nodes[1].n_ns = 0;
                put(0);
                for (unsigned i = 0; i < n_busy; i++)
                        (void)step(any_step());
                payer_take_out(&nodes[0].task);
                mine += nodes[0].n_ns;
                others += nodes[1].n_ns;
        }
        ck_assert_uint_le(mine, others + n_bursts * (201 * US + PAYER_CREDIT_NS));
        unref(0, 2);
}

/* The kernel may run others for long during a step. */
TEST(a_step_counts_no_more_than_its_most)
{
        (void)make(0, &everyone);
        payer_charge(&nodes[0].payer, PAYER_STEP_MAX_NS);
        ck_assert_uint_eq(nodes[0].payer.used_ns, PAYER_STEP_MAX_NS);
        payer_charge(&nodes[0].payer, 1000 * PAYER_STEP_MAX_NS);
        ck_assert_uint_eq(nodes[0].payer.used_ns, 2 * PAYER_STEP_MAX_NS);
        payer_charge(&nodes[0].payer, PAYER_STEP_MAX_NS - 1);
        ck_assert_uint_eq(nodes[0].payer.used_ns, 3 * PAYER_STEP_MAX_NS - 1);
        ck_assert_uint_eq(everyone.used_ns, 3 * PAYER_STEP_MAX_NS - 1);
        unref(0, 1);
}

/* Node 0 takes a long step, ends, and comes back: node 1, of short steps, has as much before it is served again. */
TEST(what_ends_and_comes_back_still_owes)
{
        (void)make(0, &everyone);
        (void)make(1, &everyone);
        put(0);
        put(1);
        (void)step(PAYER_STEP_MAX_NS);
        while (step(10 * US) != &nodes[1])
                continue;
        ck_assert_uint_ge(nodes[0].n_ns, PAYER_STEP_MAX_NS);
        payer_take_out(&nodes[0].task);
        payer_unref(&nodes[0].payer);
        ck_assert(!nodes[0].has_ended);
        payer_ref(&nodes[0].payer);
        put(0);
        nodes[1].n_ns = 0;
        while (step(10 * US) == &nodes[1])
                continue;
        ck_assert_uint_ge(nodes[1].n_ns, PAYER_STEP_MAX_NS - 20 * US);
        unref(0, 2);
}

/* It is kept until the one that stays is as far, and then no longer than until something is made or ends. */
TEST(what_ended_is_freed_once_it_is_level)
{
        (void)make(0, &everyone);
        (void)make(1, &everyone);
        (void)make(2, &everyone);
        put(0);
        put(1);
        while (step(MS) != &nodes[0])
                continue;
        payer_take_out(&nodes[0].task);
        payer_unref(&nodes[0].payer);
        ck_assert(!nodes[0].has_ended);
        while (everyone.reached_ns < nodes[0].payer.used_ns + PAYER_CREDIT_NS) {
                ck_assert(!nodes[0].has_ended);
                (void)step(100 * US);
        }
        unref(2, 3);
        ck_assert(nodes[2].has_ended && nodes[0].has_ended);
        ck_assert(TAILQ_EMPTY(&everyone.owing));
        unref(1, 2);
}

/* With no other at work, its debt says nothing. */
TEST(what_ends_alone_is_freed_at_once)
{
        struct payer *user = make(0, &everyone);

        (void)make(1, user);
        put(1);
        (void)step(MS);
        payer_take_out(&nodes[1].task);
        payer_unref(user);
        ck_assert(!nodes[0].has_ended);
        payer_unref(&nodes[1].payer);
        ck_assert(nodes[1].has_ended && nodes[0].has_ended);
        ck_assert_uint_eq(everyone.n_children, 0);
}

/* However many are kept, one call frees a few of them, and its calls do not nest. A user has a hundred containers,
 * nodes 1 to 100, of two processes each. The first ones end while the others have work; then none has. */
TEST(few_are_freed_at_a_time)
{
        enum { N = 100, FIRST = 1 + N, SECOND = FIRST + N, END = SECOND + N };

        (void)make(0, &everyone);
        for (unsigned i = 1; i < FIRST; i++) {
                (void)make(i, &nodes[0].payer);
                (void)make(i + N, &nodes[i].payer);
                (void)make(i + 2 * N, &nodes[i].payer);
                put(i + N);
                put(i + 2 * N);
        }
        for (unsigned i = 0; i < 2 * N; i++)
                (void)step(MS);
        unref(0, SECOND);
        for (unsigned i = SECOND; i < END; i++)
                payer_take_out(&nodes[i].task);
        for (unsigned i = SECOND; i < END; i++) {
                unsigned n_before = n_ended;

                payer_unref(&nodes[i].payer);
                ck_assert_uint_le(n_ended, n_before + 4);
        }
}

/* The first eight children have a place at once; the ninth needs another allocation. */
TEST(without_memory_there_is_no_payer)
{
        for (unsigned i = 0; i < 9; i++) {
                int r;

                is_memory_gone = true;
                r = payer_init(&nodes[i].payer, &everyone, on_end);
                is_memory_gone = false;
                if (i == 0 || i == 8) {
                        ck_assert_int_eq(r, -ENOMEM);
                        ck_assert_uint_eq(everyone.n_children, i);
                        (void)make(i, &everyone);
                } else {
                        ck_assert_int_eq(r, 0);
                }
                put(i);
        }
        is_memory_gone = true;
        for (unsigned i = 0; i < 100; i++) {
                struct payer *payer;
                struct task *task = payer_next(&everyone, &payer);

                payer_put(payer, task);
                payer_end_step(payer, US * (i % 7));
        }
        is_memory_gone = false;
        unref(0, 9);
}

TESTS_MAIN("next_payer", .start = start, .stop = stop)
