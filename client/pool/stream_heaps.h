/* SPDX-License-Identifier: Apache-2.0 */
/* The heaps of a pool, one for each stream: made, handed to another stream, retired. Any thread. */
#pragma once

#include "client/blocks/pool_state.h"

/* A request for memory: the stream, the size, and how long to wait. */
struct pool_request {
        struct stream_key key;
        struct stream_mark mark;
        uint64_t context_id; /* of key.context; 0: not known, or not needed */
        void *stream;        /* alive during the call */
        uint64_t n_bytes;
        uint32_t wait_ms;
};

/* Returns the stream's heap; makes it if need be. The caller has the lock. -ENOMEM. */
int pool_heap(struct pool *pool, const struct pool_request *request, struct stream_heap **ret_heap);

/* Ends a heap without blocks; the caller has the lock. */
void pool_retire_heap(struct pool *pool, struct stream_heap *heap);

/* In a pool of CUDA IPC handles: takes all blocks, for leased_free_all, whose contexts have ended. Allocations that are left in
 * them have ended, too. Memory that deferred frees name stays apart until these are made. The caller has the lock. */
void pool_take_ended(struct pool *pool, struct leased_list *list);

/* Returns the heap of the request's stream, or NULL. */
struct stream_heap *pool_find_heap(struct pool *pool, const struct pool_request *request);

/* Sets the stream that has the heap. The caller has the heap's lock. */
void pool_set_mark(struct stream_heap *heap, const struct stream_mark *mark);

/* Counts on another board from now on; NULL: on none. */
void pool_move_board(struct pool *pool, struct board_pool *board);
