/* SPDX-License-Identifier: Apache-2.0 */
/* Deferred frees, as memory for their table runs out. */
#include "client/capture/capture_frees.h"

#include <errno.h>

#include "client/capture/graph_count.h"
#include "gpumem.h"
#include "tests/suite.h"
#include "tests/unit/support/failing_alloc.h"

#define N_FREES 3

static const struct stream_key order = {.context = 1, .id = 2};
static char memory[N_FREES];
static struct capture_frees frees;

static void defer(const void *pointer)
{
        struct graph_wakeup *wakeup = graph_wakeup_new(-1);

        ck_assert_int_eq(capture_frees_add(&frees, pointer, NULL, &order, graph_count_new(wakeup)),
                         0);
        (void)graph_wakeup_unref(wakeup);
}

static void start(void)
{
        capture_frees_init(&frees);
        for (unsigned i = 0; i < N_FREES; i++)
                defer(&memory[i]);
}

static void stop(void)
{
        capture_frees_deinit(&frees);
}

/* All are taken out, so that the table has gone; each free fails while there is no memory for another table. */
static void fail_all(void)
{
        struct capture_free *taken[N_FREES];

        for (unsigned i = 0; i < N_FREES; i++)
                taken[i] = capture_frees_take_of(&frees, &order);
        ck_assert(capture_frees_none(&frees));
        is_memory_gone = true;
        for (unsigned i = 0; i < N_FREES; i++) {
                bool is_over = capture_frees_end(&frees, taken[i], -ENOMEM);

                is_memory_gone = false;
                ck_assert(!is_over);
                is_memory_gone = true;
        }
        is_memory_gone = false;
}

TEST(a_free_that_fails_is_deferred_again_without_memory)
{
        struct capture_free *taken;

        fail_all();
        for (unsigned i = 0; i < N_FREES; i++) {
                ck_assert(capture_frees_has(&frees, &memory[i]));
                ck_assert_int_eq(capture_frees_add(&frees, &memory[i], NULL, &order, NULL),
                                 GPUMEM_E_NOT_OURS);
        }
        for (unsigned i = 0; i < N_FREES; i++) {
                taken = capture_frees_take_of(&frees, &order);
                ck_assert_ptr_nonnull(taken);
                ck_assert(!capture_frees_has(&frees, taken->pointer));
                ck_assert(capture_frees_end(&frees, taken, 0));
        }
        ck_assert(capture_frees_none(&frees));
        ck_assert_ptr_null(capture_frees_take_of(&frees, &order));
}

TEST(one_that_was_deferred_again_is_found_when_its_graphs_are_gone)
{
        struct capture_free *taken;

        fail_all();
        taken = capture_frees_take_gone(&frees);
        ck_assert_ptr_nonnull(taken);
        ck_assert(capture_frees_end(&frees, taken, 0));
        ck_assert(!capture_frees_none(&frees));
}

TESTS_MAIN("capture_frees", .start = start, .stop = stop)
