/* SPDX-License-Identifier: Apache-2.0 */
/* Which frees look at the whole pool where what is empty has a size. The pool has addresses, heaps and blocks, and neither
 * a driver nor a daemon. */
#include <string.h>

#include "base/err.h"
#include "client/blocks/addresses.h"
#include "client/pool/idle_marking.h"
#include "client/pool/pool.h"
#include "client/pool/empty_blocks.h"
#include "client/runtime/service_thread.h"
#include "proto/board.h"
#include "tests/suite.h"

#define BLOCK    (16 * MIB)
#define N_BLOCKS 4 /* of a heap */
#define N_HEAPS  2
#define CACHE    (48 * MIB)
#define N_PAIRS  4096
#define PIECE    MIB
#define N_PIECES (N_BLOCKS * BLOCK / PIECE)

static struct pool pool;
static struct streams streams;
static struct after_call after_call;
static struct service_thread service;
static struct stream_heap *heaps[N_HEAPS];
static struct leased records[N_HEAPS * N_BLOCKS];
static unsigned n_records;

static void add_block(struct stream_heap *heap)
{
        struct leased *leased = &records[n_records++];

        leased->block.at.n_bytes = BLOCK;
        ck_assert_int_eq(arena_choose(pool.arena, BLOCK, ARENA_SMALL, &leased->block.at.start), 0);
        ck_assert_int_eq(arena_put(pool.arena, &leased->block.at), 0);
        ck_assert_int_eq(heap_add_block(heap_in(heap), &leased->block), 0);
        heap_set_count(&pool.heap_set, BLOCK);
}

static void begin_with(uint64_t n_cache_bytes)
{
        const struct pool_row row = {.n_capacity_bytes = GIB};
        const struct memory memory = {.kind = GPUMEM_PINNED};

        memset(records, 0, sizeof(records));
        n_records = 0;
        service = (struct service_thread){.running = true, .awake = true, .wake_fd = -1};
        ck_assert_int_eq(streams_init(&streams, &after_call), 0);
        pool_init(&pool, &row, &memory, NULL, &service, &streams, n_cache_bytes);
        ck_assert_int_eq(addresses_open(&pool), 0);
        /* Only the size bounds what is empty. */
        pool.heap_set.budget.n_slack_bytes = TIB;
        for (unsigned i = 0; i < N_HEAPS; i++) {
                const struct pool_request request = {.key = {.id = i + 1}};

                ck_assert_int_eq(pool_heap(&pool, &request, &heaps[i]), 0);
                add_block(heaps[i]);
        }
}

static void begin(void)
{
        begin_with(CACHE);
}

static void end(void)
{
        for (unsigned i = 0; i < N_HEAPS; i++) {
                heap_check(heap_in(heaps[i]));
                while (heap_abandon_block(heap_in(heaps[i])))
                        ;
        }
        pool_deinit(&pool);
        streams_deinit(&streams);
}

/* For tests that begin by themselves. */
static const struct test_case without_start = {.name = "trim, without a size", .stop = end};

static void *take(struct stream_heap *heap, uint64_t n_bytes)
{
        void *pointer;

        ck_assert_int_eq(pool_cut(heap, n_bytes, COUNTER_HIT, &pointer), 0);
        return pointer;
}

/* Says whether the free looked. */
static bool give(struct stream_heap *heap, void *pointer)
{
        int r = pool_give(heap, pointer, POOL_USE_ORDERED);

        if (r != POOL_LOOK) {
                ck_assert_int_eq(r, 0);
                return false;
        }
        if (idle_marking_is_on(&pool))
                idle_marking_note(heap, heap->generation, NULL);
        else
                empty_blocks_look(heap, heap->generation, NULL, LOOK_MAY_WAIT);
        return true;
}

/* How many frees of pairs look, each of which empties the heap. */
static unsigned count_looks(void)
{
        unsigned n_looks = 0;

        for (unsigned i = 0; i < N_PAIRS; i++) {
                struct stream_heap *heap = heaps[i % N_HEAPS];

                n_looks += give(heap, take(heap, 4 * KIB));
        }
        return n_looks;
}

/* The last frees of a heap look as often as is granted. */
static const unsigned n_most_looks = N_HEAPS * (SCAN_TRIGGER_SMALL + 1) +
                                     N_PAIRS / SCAN_TRIGGER_FREES;

TEST(frees_that_cannot_exceed_the_size_do_not_look)
{
        ck_assert_uint_le(count_looks(), n_most_looks);
}

/* What was due without a size is not due for ever. */
TEST(nor_do_they_where_the_size_comes_later, .in = &without_start)
{
        begin_with(UINT64_MAX);
        (void)count_looks();
        idle_marking_resize(&pool, CACHE);
        ck_assert_uint_eq(heaps[0]->trigger.n_floor_bytes, UINT64_MAX);
        ck_assert_uint_le(count_looks(), n_most_looks);
}

/* All blocks of the heap are used, in allocations of that size. */
static void fill(struct stream_heap *heap, uint64_t n_bytes, void **ret_pointers)
{
        while (heap_in(heap)->n_blocks < N_BLOCKS)
                add_block(heap);
        for (unsigned i = 0; i < N_BLOCKS * BLOCK / n_bytes; i++)
                ret_pointers[i] = take(heap, n_bytes);
}

/* Whichever heap frees, the free that leaves more empty than the size looks. Few look before that. */
TEST(the_free_that_exceeds_it_looks, .to = N_HEAPS)
{
        unsigned n_looks = 0, n_freed[N_HEAPS] = {0};
        void *pointers[N_HEAPS][N_BLOCKS];

        for (unsigned i = 0; i < N_HEAPS; i++)
                fill(heaps[i], BLOCK, pointers[i]);
        for (unsigned j = 0; j < CACHE / BLOCK; j++) {
                unsigned i = _i * j % N_HEAPS;

                n_looks += give(heaps[i], pointers[i][n_freed[i]++]);
        }
        ck_assert_uint_lt(n_looks, CACHE / BLOCK);
        ck_assert_int_eq(pool_give(heaps[1], pointers[1][n_freed[1]], POOL_USE_ORDERED), POOL_LOOK);
}

/* Of 48 MiB each heap has 16, besides those of the first look. Every other piece that is freed empties no block, but
 * after 16 of them the other heap may empty less. */
TEST(so_does_the_free_after_which_others_may_empty_less)
{
        void *pieces[N_PIECES], *blocks[N_BLOCKS];

        fill(heaps[0], PIECE, pieces);
        fill(heaps[1], BLOCK, blocks);
        ck_assert(give(heaps[1], blocks[0]));
        for (unsigned i = 0; i <= BLOCK / PIECE; i++)
                ck_assert_int_eq(give(heaps[0], pieces[2 * i]), i == BLOCK / PIECE);
        ck_assert_int_eq(pool_give(heaps[1], blocks[1], POOL_USE_ORDERED), POOL_LOOK);
}

/* Once there are blocks again, last frees look no more often than before the shortage, though nothing is lacking since. */
TEST(a_shortage_ends, .to = 2, .in = &without_start)
{
        begin_with(_i ? CACHE : UINT64_MAX);
        heap_set_note_refused(&pool.heap_set, 0);
        for (unsigned i = 0; i < N_HEAPS; i++)
                scan_trigger_note_lack(&heaps[i]->trigger, true);
        if (idle_marking_is_on(&pool))
                (void)idle_marking_look(&pool, IDLE_MARKING_IN_TIME);
        ck_assert_uint_le(count_looks(), n_most_looks + N_HEAPS * SCAN_TRIGGER_LACKS);
}

/* A look, or a free that records, may have begun before the pool had a size. */
TEST(with_a_size_nothing_is_marked)
{
        _Atomic uint64_t word = board_word(1, BOARD_BUSY);
        struct scan_trigger before;

        records[0].block.word = &word;
        records[0].block.lease = 1;
        pool.heap_set.patience.us = 0;
        for (unsigned i = 0; i < 3; i++)
                (void)idle_marking_look(&pool, IDLE_MARKING_URGENT);
        ck_assert(board_is(&word, 1, BOARD_BUSY));
        ck_assert_ptr_eq(records[0].block.heap, heap_in(heaps[0]));
        heap_in(heaps[0])->n_freed_bytes = TIB;
        before = heaps[0]->trigger;
        idle_marking_note(heaps[0], heaps[0]->generation, NULL);
        ck_assert_int_eq(memcmp(&before, &heaps[0]->trigger, sizeof(before)), 0);
        records[0].block.word = NULL;
}

/* What is held above the need of late is in a heap whose work does not end: to look sooner does not help. */
TEST(who_has_nothing_to_give_looks_no_sooner)
{
        void *pieces[N_PIECES];

        fill(heaps[0], PIECE, pieces);
        pool.heap_set.budget.n_slack_bytes = 0;
        heap_in(heaps[1])->n_done_epochs = 0;
        empty_blocks_look(heaps[0], heaps[0]->generation, NULL, LOOK_MAY_WAIT);
        ck_assert_uint_eq(heaps[0]->trigger.n_until, SCAN_TRIGGER_FREES);
        empty_blocks_look(heaps[1], heaps[1]->generation, NULL, LOOK_MAY_WAIT);
        ck_assert_uint_eq(heaps[1]->trigger.n_until, SCAN_TRIGGER_FREES_SOON);
}

/* A thread that has the pool's lock may not run for a while. No small records are left, for which frees would wait. */
TEST(frees_do_not_ask_each_time_for_a_lock_that_is_taken, .in = &without_start)
{
        unsigned n_looks = 0;

        begin_with(UINT64_MAX);
        (void)count_looks();
        pthread_mutex_lock(&pool.lock);
        for (unsigned i = 0; i < N_PAIRS; i++)
                n_looks += give(heaps[0], take(heaps[0], MIB));
        pthread_mutex_unlock(&pool.lock);
        ck_assert_uint_lt(n_looks, N_PAIRS / 4);
}

TESTS_MAIN("trim", .start = begin, .stop = end)
