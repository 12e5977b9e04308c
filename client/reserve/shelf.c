#include "client/reserve/shelf.h"

#include <stddef.h>
#include <stdint.h>

#include "proto/board.h"

void shelf_init(struct shelf *shelf, const struct arena *arena, enum heap_runs runs)
{
        heap_init(&shelf->heap, arena, runs);
        /* Nothing comes here before its work is over. */
        shelf->heap.n_done_epochs = UINT64_MAX;
        shelf->revoked = NULL;
}

void shelf_deinit(struct shelf *shelf)
{
        heap_deinit(&shelf->heap);
}

/* A daemon that did not set the word as it should will not serve the block to others. */
static bool give(struct heap_block *block)
{
        if (block->word && board_step(block->word, block->lease, BOARD_BUSY, BOARD_IDLE))
                return true;
        block->word = NULL;
        return false;
}

/* All that can fail comes before the mark, which the daemon may act on at once. */
int shelf_put(struct shelf *shelf, struct heap_block *block)
{
        struct heap *from = block->heap;
        int r = heap_reserve(from);

        spin_lock(&shelf->heap.lock);
        if (!r)
                r = heap_reserve(&shelf->heap);
        if (!r && !give(block))
                r = 1;
        if (!r) {
                (void)heap_remove_block(from, block);
                (void)heap_add_block(&shelf->heap, block);
        }
        spin_unlock(&shelf->heap.lock);
        return r;
}

static int remove_from(struct shelf *shelf, struct heap_block *block)
{
        int r;

        spin_lock(&shelf->heap.lock);
        r = heap_remove_block(&shelf->heap, block);
        spin_unlock(&shelf->heap.lock);
        return r;
}

static void add_revoked(struct shelf *shelf, struct heap_block *block)
{
        block->next = shelf->revoked;
        shelf->revoked = block;
}

/* Without a word the lease was over with its connection, and was idle then: the block is others'. */
static bool take_back(const struct heap_block *block)
{
        return block->word && board_step(block->word, block->lease, BOARD_IDLE, BOARD_BUSY);
}

int shelf_take(struct shelf *shelf, struct heap_block *block)
{
        int r = remove_from(shelf, block);

        if (r)
                return r;
        if (take_back(block))
                return 0;
        add_revoked(shelf, block);
        return 1;
}

void shelf_sweep(struct shelf *shelf)
{
        struct heap *heap = &shelf->heap;
        uint32_t i = 0;

        while (i < heap->n_blocks) {
                struct heap_block *block = heap->blocks[i];

                if (block->word && board_is(block->word, block->lease, BOARD_IDLE))
                        i++;
                else if (remove_from(shelf, block) == 0)
                        add_revoked(shelf, block);
                else
                        return;
        }
}

struct heap_block *shelf_next_revoked(struct shelf *shelf)
{
        struct heap_block *block = shelf->revoked;

        if (block)
                shelf->revoked = block->next;
        return block;
}
