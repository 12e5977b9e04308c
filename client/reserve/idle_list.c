/* SPDX-License-Identifier: Apache-2.0 */
#include "client/reserve/idle_list.h"

#include <stddef.h>
#include <stdint.h>

#include "proto/board.h"

void idle_list_init(struct idle_list *idle_list, const struct arena *arena, enum heap_runs runs)
{
        heap_init(&idle_list->heap, arena, runs);
        /* Work is over before a block comes here. */
        idle_list->heap.n_done_epochs = UINT64_MAX;
        idle_list->revoked = NULL;
}

void idle_list_deinit(struct idle_list *idle_list)
{
        heap_deinit(&idle_list->heap);
}

/* If the step fails, the daemon has not set the word as it should; it will not give the block to others. */
static bool give(struct heap_block *block)
{
        if (block->is_pledged)
                return true;
        if (block->word && board_step(block->word, block->lease, BOARD_BUSY, BOARD_IDLE))
                return true;
        block->word = NULL;
        return false;
}

/* All that can fail comes before the mark: the daemon may act on the mark at once. */
int idle_list_put(struct idle_list *idle_list, struct heap_block *block)
{
        struct heap *from = block->heap;
        int r = heap_reserve(from);

        spin_lock(&idle_list->heap.lock);
        if (!r)
                r = heap_reserve(&idle_list->heap);
        if (!r && !give(block))
                r = 1;
        if (!r) {
                (void)heap_remove_block(from, block);
                (void)heap_add_block(&idle_list->heap, block);
        }
        spin_unlock(&idle_list->heap.lock);
        return r;
}

static int remove_from(struct idle_list *idle_list, struct heap_block *block)
{
        int r;

        spin_lock(&idle_list->heap.lock);
        r = heap_remove_block(&idle_list->heap, block);
        spin_unlock(&idle_list->heap.lock);
        return r;
}

static void add_revoked(struct idle_list *idle_list, struct heap_block *block)
{
        block->next = idle_list->revoked;
        idle_list->revoked = block;
}

/* Without a word, the lease ended idle, with its connection: the block belongs to others. */
static bool take_back(const struct heap_block *block)
{
        return block->is_pledged ||
               (block->word && board_step(block->word, block->lease, BOARD_IDLE, BOARD_BUSY));
}

int idle_list_take(struct idle_list *idle_list, struct heap_block *block)
{
        int r = remove_from(idle_list, block);

        if (r)
                return r;
        if (take_back(block))
                return 0;
        add_revoked(idle_list, block);
        return 1;
}

void idle_list_sweep(struct idle_list *idle_list)
{
        struct heap *heap = &idle_list->heap;
        uint32_t i = 0;

        while (i < heap->n_blocks) {
                struct heap_block *block = heap->blocks[i];

                if (block->is_pledged ||
                    (block->word && board_is(block->word, block->lease, BOARD_IDLE)))
                        i++;
                else if (remove_from(idle_list, block) == 0)
                        add_revoked(idle_list, block);
                else
                        return;
        }
}

bool idle_list_pledge(struct heap_block *block)
{
        block->is_pledged = take_back(block);
        return block->is_pledged;
}

void idle_list_end_pledge(struct heap_block *block)
{
        block->is_pledged = false;
        (void)give(block);
}

struct heap_block *idle_list_next_revoked(struct idle_list *idle_list)
{
        struct heap_block *block = idle_list->revoked;

        if (block)
                idle_list->revoked = block->next;
        return block;
}
