/* SPDX-License-Identifier: Apache-2.0 */
/* Which pool a capture has. No driver is there to be asked. */
#include "client/capture/graph_pools.h"

#include <stdlib.h>

#include "tests/suite.h"

static struct graph_pools pools;
static int first_stream, second_stream;

static void start(void)
{
        graph_pools_init(&pools);
}

static void stop(void)
{
        graph_pools_deinit(&pools);
}

static struct graph_pool *open_in(void *stream)
{
        struct graph_stream *open = calloc(1, sizeof(*open));
        struct graph_pool *pool;

        ck_assert_ptr_nonnull(open);
        ck_assert_int_eq(graph_pools_get(&pools, 0, &pool), 0);
        open->stream = stream;
        graph_pools_open(&pools, pool, open);
        return pool;
}

/* Another thread may begin a capture in another stream at that moment, which the driver does not stand. */
TEST(the_driver_is_asked_about_no_other_stream_if_the_pool_is_open_in_its_own)
{
        struct graph_pool *first = open_in(&first_stream), *second = open_in(&second_stream);
        struct capture capture = {.number = 1};

        ck_assert_ptr_eq(graph_pools_of(&pools, NULL, &capture, &first_stream), first);
        ck_assert_ptr_eq(graph_pools_of(&pools, NULL, &capture, &second_stream), second);
}

TEST(a_capture_has_none_if_none_is_open)
{
        struct capture capture = {.number = 1};

        ck_assert_ptr_null(graph_pools_of(&pools, NULL, &capture, &first_stream));
}

TESTS_MAIN("graph_pools", .start = start, .stop = stop)
