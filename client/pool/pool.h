/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations in a pool (pool_state.h): the pool's beginning and end, allocations and frees in the heap of a stream,
 * and the block, heap and allocation of a pointer. Any thread. */
#pragma once

#include "base/err.h"
#include "client/blocks/pool_state.h"
#include "client/pool/stream_heaps.h"

/* The pool is not attached to a daemon yet. It must not be moved afterwards. n_cache_bytes: of empty blocks at most. */
void pool_init(struct pool *pool, const struct pool_row *row, const struct memory *memory,
               struct reconnector *reconnector, struct service_thread *service,
               struct streams *streams, uint64_t n_cache_bytes);

/* Unmaps and returns every block, empty or not. GPU work on them must be over. */
void pool_deinit(struct pool *pool);

/* Allocates from a heap that may belong to another stream by now. GPUMEM_E_REFUSED: it does, or no hole holds
 * n_bytes. */
int pool_hit(struct stream_heap *heap, const struct stream_mark *mark, uint64_t n_bytes,
             void **ret_pointer);

/* GPUMEM_E_TOO_LARGE: n_bytes is more than the whole pool; the thread's last error has a text. */
int pool_check_size(const struct pool *pool, uint64_t n_bytes);

/* Allocates memory in the order of the stream, whose heap is `*ret_heap` then; see gpumem_alloc. */
int pool_alloc(struct pool *pool, const struct pool_request *request, struct stream_heap **ret_heap,
               void **ret_pointer);

/* Registers pinned memory in the current context, if the context has ended in which its block was registered. The
 * allocation at `pointer` was just made in that heap, and is freed after a failure. */
int pool_renew_registration(struct pool *pool, const struct pool_request *request,
                            struct stream_heap *heap, const void *pointer);

/* Does the result mean that there was not enough memory? */
bool pool_is_refusal(int r);

/* Notes the event that there is no room for n_bytes. */
void pool_note_pressure(struct pool *pool, uint64_t n_bytes);

/* The block that a pointer lies in; NULL: none of this pool. It does not tell whether anything is allocated there. */
struct heap_block *pool_block_of(const struct pool *pool, const void *pointer);

/* The heap that the block is in; NULL: it is one allocation, or on the idle list. */
struct stream_heap *pool_heap_of_block(const struct pool *pool, const struct heap_block *block);

/* The heap that a pointer's block is in, or NULL. */
struct stream_heap *pool_heap_of(const struct pool *pool, const void *pointer);

/* The stream in whose order the allocation at `pointer` in that heap is. If it was made without a context and
 * registered later, any stream may use it: it has the context of the registration, and an id that no stream has. */
struct stream_key pool_order_of(const struct stream_heap *heap, const void *pointer);

/* Does an allocation in a heap of this pool start there? GPUMEM_E_NOT_OURS: none. */
int pool_find(struct pool *pool, const void *pointer);

/* Describes the allocation that contains the address; struct_size is left alone. GPUMEM_E_NOT_OURS. */
int pool_describe(struct pool *pool, const void *pointer, struct gpumem_info *ret_info);

/* Frees an allocation. POOL_USE_ORDERED: its last use is ordered before later work of its stream. POOL_USE_OVER: that
 * use is over. Returns POOL_LOOK if it is time for empty_blocks_look; GPUMEM_E_NOT_OURS. */
#define POOL_LOOK 1000
enum pool_use { POOL_USE_ORDERED, POOL_USE_OVER };
int pool_give(struct stream_heap *heap, const void *pointer, enum pool_use use);

/* The same, where the caller has looked the block up. */
int pool_give_in(struct stream_heap *heap, struct heap_block *block, const void *pointer,
                 enum pool_use use);

void pool_reset_peaks(struct pool *pool);

/* Makes an allocation in the heap, and counts it. As heap_alloc. */
NOINLINE int pool_cut(struct stream_heap *heap, uint64_t n_bytes, enum counter_event event,
                      void **ret_pointer);
