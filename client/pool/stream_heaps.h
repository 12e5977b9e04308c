/* SPDX-License-Identifier: Apache-2.0 */
/* The heaps of a pool, one a stream: made, handed on, retired. Any thread. */
#pragma once

#include "client/blocks/pool_state.h"

/* Who asks for memory, and how. */
struct pool_request {
        struct stream_key key;
        struct stream_mark mark;
        void *stream; /* alive during the call */
        uint64_t n_bytes;
        uint32_t wait_ms;
};

/* The stream's heap, made if need be; the caller has the lock. -ENOMEM. */
int pool_heap(struct pool *pool, const struct pool_request *request, struct stream_heap **ret_heap);

/* Ends a heap without blocks; the caller has the lock. */
void pool_retire_heap(struct pool *pool, struct stream_heap *heap);

/* Who asks has that heap, or NULL. */
struct stream_heap *pool_find_heap(struct pool *pool, const struct pool_request *request);

/* The caller has the heap's lock. */
void pool_set_mark(struct stream_heap *heap, const struct stream_mark *mark);

/* Counts on another board from now on; NULL: on none. */
void pool_move_board(struct pool *pool, struct board_pool *board);
