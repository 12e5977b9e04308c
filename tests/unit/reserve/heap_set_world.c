/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/reserve/heap_set_world.h"

#include <check.h>

#include "base/err.h"

struct heap_world world;
struct heap_set set;
struct set_heap heaps[3];
_Atomic uint64_t words[WORLD_BLOCKS_MAX];

void begin(enum heap_runs runs)
{
        world_init(&world, 64 * GIB);
        heap_set_init(&set);
        heap_set_open(&set, world.arena, runs);
        for (unsigned i = 0; i < ARRAY_SIZE(heaps); i++)
                heap_set_add(&set, &heaps[i], runs);
}

void begin_joined(void)
{
        begin(HEAP_JOINED);
}

void check_all(void)
{
        heap_check(&set.idle_list.heap);
        for (unsigned i = 0; i < ARRAY_SIZE(heaps); i++)
                heap_check(&heaps[i].heap);
}

void end(void)
{
        check_all();
        for (unsigned i = 0; i < ARRAY_SIZE(heaps); i++)
                heap_set_remove(&set, &heaps[i]);
        heap_set_close(&set);
        world_deinit(&world);
}

struct heap_block *add(unsigned heap, uint64_t offset, uint64_t n_bytes)
{
        unsigned i = world.n_blocks;
        struct heap_block *block = world_add(&world, &heaps[heap].heap, offset, n_bytes);

        block->lease = i + 1;
        block->word = &words[i];
        words[i] = board_word(block->lease, BOARD_BUSY);
        return block;
}

void fill(unsigned heap, uint64_t n_bytes, uint64_t offset)
{
        ck_assert_uint_eq(world_alloc(&heaps[heap].heap, n_bytes), offset);
}

void give(unsigned heap, uint64_t offset)
{
        (void)world_free(&heaps[heap].heap, offset);
}

void pass(unsigned heap)
{
        heaps[heap].heap.n_done_epochs = heap_new_epoch(&heaps[heap].heap) + 1;
}

bool look(void)
{
        bool found = heap_set_put_idle(&set, 0);

        (void)heap_set_settle(&set);
        check_all();
        return found;
}

void put_idle(void)
{
        (void)look();
        (void)look();
}

void revoke(struct heap_block *block)
{
        ck_assert(board_step(block->word, block->lease, BOARD_IDLE, BOARD_REVOKED));
}

static void expect_word(const struct heap_block *block, enum board_state state)
{
        ck_assert_uint_eq(words[block - world.blocks], board_word(block->lease, state));
}

void expect_in(unsigned heap, const struct heap_block *block)
{
        ck_assert(block->heap == &heaps[heap].heap);
        expect_word(block, BOARD_BUSY);
}

void expect_idle(const struct heap_block *block)
{
        ck_assert(block->heap == &set.idle_list.heap);
        expect_word(block, BOARD_IDLE);
}

void expect_gone(const struct heap_block *block)
{
        ck_assert(block->heap == NULL);
        expect_word(block, BOARD_REVOKED);
}

bool reuse(uint64_t n_bytes)
{
        bool reused = heap_set_reuse_idle(&set, &heaps[0], n_bytes);

        check_all();
        return reused;
}
