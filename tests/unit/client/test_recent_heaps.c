/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the heaps that streams used last: every stream keeps its place, however many there are. */
#include <stdlib.h>
#include <string.h>

#include "client/pool/recent_heaps.h"
#include "client/pool/stream_heaps.h"
#include "tests/suite.h"

#define N_STREAMS 5000

static struct recent_heaps recent;
static struct stream_heap *heaps;

static void begin(void)
{
        recent_heaps_init(&recent);
        heaps = aligned_alloc(_Alignof(struct stream_heap), N_STREAMS * sizeof(*heaps));
        ck_assert_ptr_nonnull(heaps);
        memset(heaps, 0, N_STREAMS * sizeof(*heaps));
}

static void end(void)
{
        recent_heaps_deinit(&recent);
        free(heaps);
}

static void give(const struct stream_mark *mark, struct stream_heap *heap)
{
        pool_set_mark(heap, mark);
        recent_heaps_note(&recent, mark, heap);
}

static unsigned n_bits(void)
{
        return atomic_load(&recent.table)->n_bits;
}

TEST(nothing_is_found_in_an_empty_table)
{
        const struct stream_mark mark = {.id = 1};

        ck_assert_ptr_null(recent_heaps_find(&recent, &mark));
        recent_heaps_forget(&recent, &mark);
        ck_assert_ptr_null(recent_heaps_find(&recent, &mark));
}

TEST(every_stream_keeps_its_heap)
{
        for (unsigned i = 0; i < N_STREAMS; i++)
                give(&(struct stream_mark){.id = i}, &heaps[i]);
        for (unsigned i = 0; i < N_STREAMS; i++)
                ck_assert_ptr_eq(recent_heaps_find(&recent, &(struct stream_mark){.id = i}),
                                 &heaps[i]);
}

/* Default streams have one id in all contexts, and captures have marks of their own. */
TEST(scopes_are_told_apart)
{
        for (unsigned i = 0; i < N_STREAMS; i++)
                give(&(struct stream_mark){.scope = 0x7f0000000000 + i * 4096UL, .id = 1},
                     &heaps[i]);
        for (unsigned i = 0; i < N_STREAMS; i++) {
                const struct stream_mark mark = {.scope = 0x7f0000000000 + i * 4096UL, .id = 1};

                ck_assert_ptr_eq(recent_heaps_find(&recent, &mark), &heaps[i]);
        }
}

TEST(a_stream_that_has_another_heap_is_found_there)
{
        const struct stream_mark mark = {.id = 7};

        give(&mark, &heaps[0]);
        give(&mark, &heaps[1]);
        ck_assert_ptr_eq(recent_heaps_find(&recent, &mark), &heaps[1]);
        recent_heaps_forget(&recent, &mark);
        ck_assert_ptr_null(recent_heaps_find(&recent, &mark));
        give(&mark, &heaps[0]);
        ck_assert_ptr_eq(recent_heaps_find(&recent, &mark), &heaps[0]);
}

/* Streams come and go, and their heaps serve the next ones. */
TEST(streams_that_are_gone_make_no_table_grow)
{
        for (unsigned i = 0; i < N_STREAMS; i++) {
                const struct stream_mark mark = {.id = i};

                give(&mark, &heaps[i % 8]);
                ck_assert_ptr_eq(recent_heaps_find(&recent, &mark), &heaps[i % 8]);
        }
        ck_assert_uint_le(n_bits(), 7);
        for (unsigned i = 0; i < 8; i++)
                pool_set_mark(&heaps[i], &stream_mark_none);
        for (unsigned i = 0; i < 64; i++)
                give(&(struct stream_mark){.id = i}, &heaps[i]);
        ck_assert_uint_le(n_bits(), 9);
}

/* A thread's calls leave another's heap alone, but for one. */
TEST(a_wrong_guess_is_made_once)
{
        give(&(struct stream_mark){.id = 1}, &heaps[1]);
        ck_assert_ptr_eq(recent_heaps_prefetch(&recent, 1), &heaps[1]);
        recent_heaps_check(&recent, &heaps[1], &heaps[1]);
        ck_assert_ptr_eq(recent_heaps_prefetch(&recent, 1), &heaps[1]);
        recent_heaps_check(&recent, &heaps[1], &heaps[2]);
        ck_assert_ptr_null(recent_heaps_prefetch(&recent, 1));
        recent_heaps_check(&recent, NULL, &heaps[2]);
        give(&(struct stream_mark){.id = 2}, &heaps[2]);
        ck_assert_ptr_eq(recent_heaps_prefetch(&recent, 1), &heaps[2]);
}

TESTS_MAIN("recent_heaps", .limit_s = UNLIMITED, .start = begin, .stop = end)
