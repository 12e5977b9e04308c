/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/moves.h"

#include <errno.h>
#include <stddef.h>

#include "base/clock.h"

static bool is_movable(const struct pool *pool)
{
        return pool->memory.kind == GPUMEM_DEVICE && !pool->memory.is_ipc;
}

/* Adds a block to the heap that has no lease to be counted: it still counts as reserved. */
static void add(struct pool *pool, struct stream_heap *heap, struct leased *leased,
                struct leased_list *list)
{
        int r = -ENOMEM;

        /* The client has left that connection, and its board will be gone. */
        if (leased->connection != pool->binding.connection)
                leased->block.word = NULL;
        if (heap) {
                spin_lock(&heap_in(heap)->lock);
                r = heap_add_block(heap_in(heap), &leased->block);
                spin_unlock(&heap_in(heap)->lock);
        }
        if (!r)
                return;
        heap_set_forget(&pool->heap_set, leased_bytes(leased));
        pool_discount_block(pool, leased_bytes(leased));
        LIST_INSERT_HEAD(list, leased, link);
}

void moves_plan(struct pool *pool, struct stream_heap *heap, enum heap_set_reach reach,
                unsigned n_most, struct new_blocks *new_blocks, struct moves *moves)
{
        struct heap_set_move wanted[HEAP_SET_MOVES];

        moves->n = moves->n_moved = 0;
        if (!is_movable(pool) ||
            !heap_set_excess(&pool->heap_set, new_blocks->n_bytes, pool_now_us(pool)))
                return;
        moves->n = heap_set_take_moves(&pool->heap_set, &heap->in_set, reach, n_most, new_blocks,
                                       wanted);
        for (unsigned i = 0; i < moves->n; i++) {
                moves->from[i] = CONTAINER_OF(wanted[i].block, struct leased, block);
                if (leased_reserve(pool, wanted[i].to, leased_bytes(moves->from[i]), &moves->to[i]))
                        moves->to[i] = NULL;
        }
}

static void forget(struct pool *pool, uint64_t n_bytes)
{
        pthread_mutex_lock(&pool->lock);
        heap_set_forget(&pool->heap_set, n_bytes);
        pool_discount_block(pool, n_bytes);
        pthread_mutex_unlock(&pool->lock);
}

void moves_cancel(struct pool *pool, struct moves *moves)
{
        for (unsigned i = moves->n_moved; i < moves->n; i++) {
                if (moves->to[i])
                        leased_cancel(pool, moves->to[i]);
                moves->to[i] = NULL;
        }
}

/* The block whose move has failed is gone. */
static void take_out(struct moves *moves, unsigned index)
{
        moves->n--;
        for (unsigned i = index; i < moves->n; i++) {
                moves->from[i] = moves->from[i + 1];
                moves->to[i] = moves->to[i + 1];
        }
}

int moves_make(struct pool *pool, struct moves *moves)
{
        uint64_t until_us = clock_now_us() + MOVES_US;

        while (moves->n_moved < moves->n) {
                unsigned i = moves->n_moved;
                uint64_t n_bytes = leased_bytes(moves->from[i]);

                if (!moves->to[i] || clock_now_us() >= until_us)
                        break;
                if (leased_move(pool, moves->from[i], moves->to[i])) {
                        forget(pool, n_bytes);
                        take_out(moves, i);
                        break;
                }
                moves->n_moved++;
        }
        moves_cancel(pool, moves);
        return moves->n_moved < moves->n ? -EAGAIN : 0;
}

void moves_install(struct pool *pool, struct stream_heap *heap, struct moves *moves,
                   struct leased_list *list)
{
        for (unsigned i = 0; i < moves->n; i++)
                add(pool, heap, i < moves->n_moved ? moves->to[i] : moves->from[i], list);
        moves->n = moves->n_moved = 0;
}
