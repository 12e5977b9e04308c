/* SPDX-License-Identifier: Apache-2.0 */
/* How an allocation of a heap is freed: at once, or when the work of other streams is over. Any thread. */
#pragma once

#include "client/api/client.h"
#include "client/pool/empty_blocks.h"

/* The block that a pointer lies in, or NULL: none of this client. ret_heap: the heap that it is in; NULL: it is one
 * allocation. */
static ALWAYS_INLINE struct heap_block *block_of(struct gpumem_client *client, const void *pointer,
                                                 struct stream_heap **ret_heap)
{
        struct heap_block *block = NULL;

        *ret_heap = NULL;
        for (uint32_t i = 0; i < client->n_pools; i++) {
                block = pool_block_of(&client->pools[i], pointer);
                if (block) {
                        *ret_heap = pool_heap_of_block(&client->pools[i], block);
                        break;
                }
        }
        return block;
}

static inline struct stream_heap *heap_of(struct gpumem_client *client, const void *pointer)
{
        struct stream_heap *heap;

        (void)block_of(client, pointer, &heap);
        return heap;
}

/* Do other streams use allocations of the block, or did they until these were freed? */
static inline bool is_used(const struct heap_block *block)
{
        return atomic_load_explicit(&block->n_uses, memory_order_relaxed) != 0;
}

/* Looks at what became empty in the heap, which had this generation at the free. `own_stream` is its stream, which is
 * alive; NULL: the caller does not have it. */
COLD void look_at_heap(struct stream_heap *heap, uint64_t generation, void *const *own_stream,
                       enum look_patience patience);

/* Has the service thread look at the pool soon, if idle blocks are marked there. */
COLD void wake_for_idle(struct pool *pool);

/* A graph's memory has no marks that tell when it is idle; but the graph may be gone. */
COLD void look_at_captured(struct pool *pool);

/* Frees it. `block`: where the caller has found it. Its last use is ordered in `own_stream`, the heap's; NULL: that
 * use is over. */
static inline int free_found(struct stream_heap *heap, struct heap_block *block,
                             const void *pointer, void *const *own_stream,
                             enum look_patience patience)
{
        uint64_t generation = heap->generation;
        int r = pool_give_in(heap, block, pointer, own_stream ? POOL_USE_ORDERED : POOL_USE_OVER);

        if (pool_is_captured(heap) && (!r || r == POOL_LOOK)) {
                if (!own_stream)
                        look_at_captured(heap->pool);
                return 0;
        }
        /* No mark is needed to know that it is idle, and there may be no later free. */
        if (!r && !own_stream)
                wake_for_idle(heap->pool);
        if (r != POOL_LOOK)
                return r;
        look_at_heap(heap, generation, own_stream, patience);
        return 0;
}

static inline int free_in(struct stream_heap *heap, const void *pointer, void *const *own_stream)
{
        return free_found(heap, pool_block_of(heap->pool, pointer), pointer, own_stream,
                          LOOK_MAY_WAIT);
}

/* Frees it in its heap when the work of all streams that may use it is over. own_stream: as in free_in. */
COLD int free_or_defer(struct gpumem_client *client, struct stream_heap *heap,
                       const struct stream_use_end *how, void *const *own_stream);
